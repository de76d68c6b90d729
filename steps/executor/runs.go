package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"nodejoin/steps/host"
)

// KeepNotes is how many notes a machine keeps; older ones are dropped.
const KeepNotes = 20

// NotesPath is where the notes of a machine lie.
func NotesPath(f host.Facts) string { return host.Join(f.OS, f.DataDir, "history.json") }

// Notes reads the notes of a machine, oldest first. Notes that cannot be parsed count as none, because
// nothing depends on them.
func Notes(ctx context.Context, r host.Reader, f host.Facts) ([]RunNote, error) {
	if err := host.Own(ctx, r, NotesPath(f)); err != nil {
		return nil, err
	}
	rc, err := r.Open(ctx, NotesPath(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, 4<<20))
	if err != nil {
		return nil, err
	}
	var out []RunNote
	if json.Unmarshal(b, &out) != nil {
		return nil, nil
	}
	return out, nil
}

// Note adds a note to those of the machine, and to the record the versions that the run
// has seen run.
func (x *Executor) Note(ctx context.Context, n RunNote) error {
	if err := x.prepare(ctx); err != nil {
		return err
	}
	changed := false
	for _, id := range slices.Sorted(maps.Keys(n.RanVersions)) {
		if u, ok := x.record.Archives[id]; ok && u.Version != n.RanVersions[id] {
			u.Version = n.RanVersions[id]
			x.record.Archives[id], changed = u, true
		}
	}
	if changed {
		if err := x.record.Save(ctx, x.host, x.facts); err != nil {
			return fmt.Errorf("note the run: %w", err)
		}
	}
	notes, err := Notes(ctx, x.host, x.facts)
	if err != nil {
		return err
	}
	if last := len(notes) - 1; n.IsLeave() && n.Failed == "" && last >= 0 && notes[last].IsLeave() {
		return nil // it continues one that is noted
	}
	same := func(have RunNote) bool { return n.Holder.Run != "" && have.Holder.Run == n.Holder.Run }
	if i := slices.IndexFunc(notes, same); i >= 0 { // the run did not hear that it is noted, nor of all that it changed
		more := slices.DeleteFunc(notes[i].Changed, func(id string) bool { return slices.Contains(n.Changed, id) })
		n.Changed = append(more, n.Changed...)
		notes[i] = n
	} else {
		notes = append(notes, n)
	}
	b, err := json.MarshalIndent(notes[max(0, len(notes)-KeepNotes):], "", " ")
	if err != nil {
		return err
	}
	if err := x.host.WriteFile(ctx, NotesPath(x.facts), bytes.NewReader(append(b, '\n')),
		host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		return fmt.Errorf("note the run: %w", err)
	}
	return nil
}

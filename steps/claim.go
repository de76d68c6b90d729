package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Claim notes, before the changes themselves, that this step is about to make or alter
// things. Only the first claim of a key holds the earlier state. With a snapshot open,
// that notes what the claims are about to alter, too. A prefix that no kind knows how to
// undo is refused.
func (e *Env) Claim(ctx context.Context, h host.Host, claims ...record.New) error {
	for _, c := range claims {
		if _, ok := e.Undos[c.Key.Prefix]; !ok {
			return unknownPrefix(c.Key)
		}
	}
	claims = slices.Clone(claims)
	forget, err := e.snapshot(ctx, h, claims)
	if err != nil {
		return err
	}
	if len(e.Record.Claims) == 0 {
		// The save below makes nodejoin's folder, with the folders above it.
		missing, err := host.MissingParents(ctx, h, e.Facts.OS, record.Path(e.Facts))
		if err != nil {
			return err
		}
		missing = append(slices.Clone(e.Missing), missing...)
		slices.Sort(missing)
		for _, dir := range slices.Compact(missing) {
			claims = append(claims, record.New{Key: record.Directory.Of(dir)})
		}
	}
	for i := range claims {
		claims[i].Plan = e.Plan
	}
	err = e.Record.Claim(ctx, h, e.Facts, e.StepID, forget != nil, claims...)
	if err != nil && forget != nil {
		forget()
	}
	return err
}

// Parents are claims of the folders above path that are missing, the outermost first.
// Nodejoin's own folder needs no claim: it goes last, whatever is in the record.
func (e *Env) Parents(ctx context.Context, r host.Reader, path string) ([]record.New, error) {
	missing, err := host.MissingParents(ctx, r, e.Facts.OS, path)
	var out []record.New
	for _, dir := range missing {
		if !host.Within(e.Facts.OS, e.Facts.DataDir, dir) {
			out = append(out, record.New{Key: record.Directory.Of(dir)})
		}
	}
	return out, err
}

// snapshot notes what claims are about to alter in an open snapshot. It gives what takes
// it out again where it could not be saved; nil = nothing was noted.
func (e *Env) snapshot(ctx context.Context, h host.Host, claims []record.New) (forget func(), err error) {
	var added []record.Key
	forget = func() {
		for _, key := range added {
			delete(e.Record.Snapshot.Items, key)
		}
	}
	for _, c := range claims {
		ok, err := e.Snapshot(ctx, h, c)
		if err != nil {
			forget()
			return nil, err
		}
		if ok {
			added = append(added, c.Key)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	return forget, nil
}

// Snapshot notes one thing as it is in an open snapshot; false where it is in there
// already, or need not be. The record is not saved.
func (e *Env) Snapshot(ctx context.Context, h host.Host, n record.New) (bool, error) {
	s := e.Record.Snapshot
	if !s.Wants(n.Key) {
		return false, nil
	}
	undo := e.Undos[n.Key.Prefix]
	have, ok := e.Record.Lookup(n.Key)
	item := record.Item{Claim: record.Claim{Step: cmp.Or(n.Step, e.StepID), Detail: n.Detail},
		Claimed: ok && !have.Undone}
	state := n.Previous
	var err error
	switch {
	case undo.Snapshot == SnapshotNone:
		return false, nil
	case undo.Snapshot == SnapshotNew:
		if item.Claimed || state != nil || undo.IsNew != nil && !undo.IsNew(ctx, h, e, n.Key.Name) {
			return false, nil
		}
	case undo.State != nil:
		if state, err = undo.State(ctx, h, e, n.Key.Name); err != nil {
			return false, err
		}
	}
	item.Existed = state != nil
	if item.Existed {
		if undo.Snapshot == SnapshotInline {
			item.Previous, err = json.Marshal(state)
		} else {
			item.Blob, err = record.StoreState(ctx, h, e.Facts, state)
		}
		if err != nil {
			return false, err
		}
	}
	s.Add(n.Key, item)
	return true, nil
}

// NewPath reports whether path was not there before the open snapshot: it is not there,
// or was made since.
func NewPath(ctx context.Context, r host.Reader, e *Env, path string) bool {
	for _, prefix := range []record.Prefix{record.Directory, record.File} {
		if item, ok := e.Record.Snapshot.Items[prefix.Of(path)]; ok && !item.Existed {
			return true
		}
	}
	_, err := r.Stat(ctx, path)
	return errors.Is(err, fs.ErrNotExist)
}

// SetArchive notes what an archive or binary step has unpacked.
func (e *Env) SetArchive(u record.Unpacked) {
	if s := e.Record.Snapshot; s.Open() {
		if _, ok := s.Archives[e.StepID]; !ok {
			s.Archives[e.StepID] = nil
			if have, there := e.Record.Archives[e.StepID]; there {
				s.Archives[e.StepID] = &have
			}
		}
	}
	e.Record.Archives[e.StepID] = u
}

// Created reports whether one of keys is claimed as a thing that was not there before
// nodejoin, and has not been undone.
func Created(e *Env, keys ...record.Key) bool {
	for _, key := range keys {
		if c, ok := e.Record.Lookup(key); ok && !c.Existed && !c.Undone {
			return true
		}
	}
	return false
}

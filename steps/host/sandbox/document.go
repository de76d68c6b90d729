package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/gofrs/flock"

	"nodejoin/steps/host"
)

// document is the state of a machine or of a cluster. It is a JSON file that this process also holds in memory.
// It reads the file again only after another process, or a person, has changed it.
//
// A change rewrites the file. Once the file is large, changes of its tables are appended to a journal beside
// it, one line per call: a JSON object with the shape of the file, in which null removes an entry. When the
// journal is as large as the file, the file is rewritten and the journal is removed. Both are complete after
// each call, so a process may be killed at any time.
type document struct {
	path, journal, lock string
	empty               func() contents
	large               int64 // from this size on, changes go to the journal

	// free holds one value while no call of this process uses the fields below.
	free chan struct{}
	*reading
	// last is the state as the last call read it. The garbage collector may free it, so that a thousand idle
	// machines need no memory. A state with tables is kept.
	last weak.Pointer[reading]
}

// reading is what a document has read from its file.
type reading struct {
	state contents // nil: nothing
	rest  []byte   // JSON of state.rest as it is in the file
	file  identity
	lines int64 // length of the journal that state includes
}

// contents are the data of a document. The file is their JSON encoding.
type contents interface {
	// init fills in what the file omits.
	init()
	// tables are the parts that go to the journal, by their JSON names.
	tables() map[string]journaled
	// rest is everything else. Without tables it is the contents themselves.
	rest() any
}

// largeDocument is the size above which rewriting a file costs more than appending to
// a journal.
const largeDocument = 64 << 10

// identity identifies a version of a file: write sets a modification time in nanoseconds that no other version
// has. The zero value means that the file is missing.
type identity struct {
	size     int64
	modified time.Time
}

func identify(path string) (identity, error) {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, err
	}
	return identity{fi.Size(), fi.ModTime()}, nil
}

// documents holds the documents that this process uses, by path, as weak.Pointer[document]. They are shared,
// because each of a thousand kubelets opens the cluster that it joins.
var documents sync.Map

// openDocument returns the document at path. Its lock is a separate file.
func openDocument(path, journal, lock string, empty func() contents) *document {
	for {
		if v, ok := documents.Load(path); ok {
			if d := v.(weak.Pointer[document]).Value(); d != nil {
				return d
			}
			documents.CompareAndDelete(path, v)
		}
		d := &document{path: path, journal: journal, lock: lock, empty: empty, large: largeDocument,
			free: make(chan struct{}, 1)}
		d.free <- struct{}{}
		p := weak.Make(d)
		if _, taken := documents.LoadOrStore(path, p); !taken {
			runtime.AddCleanup(d, func(path string) { documents.CompareAndDelete(path, p) }, path)
			return d
		}
	}
}

// acquire waits until no other call in this process uses the document.
func (d *document) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-d.free:
		if d.reading == nil {
			d.reading = d.last.Value()
		}
		if d.reading == nil {
			d.reading = &reading{}
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another use of %s: %w", d.path, context.Cause(ctx))
	}
}

func (d *document) release() {
	if d.state == nil || len(d.state.tables()) == 0 {
		d.last, d.reading = weak.Make(d.reading), nil
	}
	d.free <- struct{}{}
}

// view calls f with the state. f must not change it or keep parts of it.
func (d *document) view(ctx context.Context, f func(contents) error) error {
	if err := d.acquire(ctx); err != nil {
		return err
	}
	defer d.release()
	// No lock is needed, because the file is replaced atomically.
	if fresh, err := d.fresh(); err != nil {
		return err
	} else if !fresh {
		if err := withLock(ctx, d.lock, d.read); err != nil {
			return err
		}
	}
	return f(d.state)
}

// change calls f under the lock and writes what it changed. If f fails, its changes are discarded.
func (d *document) change(ctx context.Context, f func(contents) error) error {
	return d.locked(ctx, func(s contents) error {
		if err := f(s); err != nil {
			return err
		}
		return d.save()
	})
}

// locked is like change, but f itself calls save after it has changed the state.
func (d *document) locked(ctx context.Context, f func(contents) error) error {
	if err := d.acquire(ctx); err != nil {
		return err
	}
	defer d.release()
	return withLock(ctx, d.lock, func() error {
		if err := d.read(); err != nil {
			return err
		}
		err := f(d.state)
		if err != nil && d.state != nil {
			d.discard()
		}
		return err
	})
}

// fresh reports whether the state in memory is up to date with the file.
func (d *document) fresh() (bool, error) {
	if d.state == nil {
		return false, nil
	}
	file, err := identify(d.path)
	if err != nil || file != d.file {
		return false, err
	}
	lines, err := identify(d.journal)
	return lines.size == d.lines, err
}

// read loads the file into memory. The lock is held.
func (d *document) read() error {
	if fresh, err := d.fresh(); err != nil || fresh {
		return err
	}
	file, err := identify(d.path)
	if err != nil {
		return err
	}
	lines, err := identify(d.journal)
	if err != nil {
		return err
	}
	if d.state == nil || file != d.file || lines.size < d.lines {
		d.state = nil
		s := d.empty()
		if err := readJSON(d.path, s); err != nil {
			return err
		}
		s.init()
		if d.rest, err = json.Marshal(s.rest()); err != nil {
			return err
		}
		d.state, d.file, d.lines = s, file, 0
	}
	return d.readJournal()
}

// readJournal applies the lines of the journal that the state does not include yet.
func (d *document) readJournal() error {
	f, err := os.Open(d.journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.NewSectionReader(f, d.lines, 1<<62))
	if err != nil {
		return err
	}
	for {
		line, more, whole := bytes.Cut(raw, []byte("\n"))
		if !whole {
			return nil // an unfinished line does not count
		}
		if err := json.Unmarshal(line, d.state); err != nil {
			d.state = nil
			return fmt.Errorf("%s is damaged: %w", d.journal, err)
		}
		d.lines += int64(len(line)) + 1
		raw = more
	}
}

// discard undoes the changes of a call that failed.
func (d *document) discard() {
	for _, t := range d.state.tables() {
		t.discard()
	}
	if rest, err := json.Marshal(d.state.rest()); err != nil || !bytes.Equal(rest, d.rest) {
		d.state = nil
	}
}

// save writes what has changed since the last save. The lock is held.
func (d *document) save() error {
	err := d.saveChanges()
	if err != nil {
		d.state = nil
	}
	return err
}

func (d *document) saveChanges() error {
	rest, err := json.Marshal(d.state.rest())
	if err != nil {
		return err
	}
	changed := map[string]any{}
	for name, t := range d.state.tables() {
		if entries := t.changed(); entries != nil {
			changed[name] = entries
		}
	}
	sameRest := bytes.Equal(rest, d.rest)
	if len(changed) == 0 && sameRest {
		return nil
	}
	if len(changed) > 0 && (d.lines > 0 || sameRest && d.file.size >= d.large) {
		if err := d.append(changed); err != nil {
			return err
		}
		if sameRest && d.lines < d.file.size {
			return nil
		}
	}
	d.rest = rest
	return d.write()
}

// append adds a line to the journal.
func (d *document) append(changed map[string]any) (err error) {
	line, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.journal, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	line = append(line, '\n')
	// Start after the last complete line: a killed process may have left part of one.
	if err := f.Truncate(d.lines); err != nil {
		return err
	}
	if _, err := f.WriteAt(line, d.lines); err != nil {
		return err
	}
	d.lines += int64(len(line))
	for _, t := range d.state.tables() {
		t.keep()
	}
	return nil
}

// write replaces the file and removes the journal, because the file then includes its lines.
func (d *document) write() error {
	for _, t := range d.state.tables() {
		t.keep()
	}
	raw := d.rest
	if len(d.state.tables()) > 0 {
		var err error
		if raw, err = json.Marshal(d.state); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw, "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	tmp := host.TempName(d.path)
	if err := os.WriteFile(tmp, text.Bytes(), 0o600); err != nil {
		return err
	}
	// The clock of a file system ticks in milliseconds: two versions would look alike.
	now := time.Now()
	if err := errors.Join(os.Chtimes(tmp, now, now), os.Rename(tmp, d.path)); err != nil {
		return err
	}
	if d.lines > 0 {
		if err := os.Remove(d.journal); err != nil {
			return err
		}
		d.lines = 0
	}
	var err error
	d.file, err = identify(d.path)
	return err
}

// lockWait bounds the wait for a lock. The lock holder only reads and writes a small file.
const lockWait = time.Minute

// withLock holds the file lock at path while f runs. It waits for the lock until ctx ends or lockWait has
// passed; the error says what it waited for.
func withLock(ctx context.Context, path string, f func() error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	lock := flock.New(path)
	got, err := lock.TryLock()
	if err == nil && !got {
		err = waitForLock(ctx, lock)
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return f()
}

func waitForLock(ctx context.Context, lock *flock.Flock) error {
	wait, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("it was not released for %s", lockWait))
	defer cancel()
	_, err := lock.TryLockContext(wait, 2*time.Millisecond)
	if wait.Err() != nil {
		return fmt.Errorf("waiting for the lock %s, which another process holds: %w", lock.Path(), context.Cause(wait))
	}
	return err
}

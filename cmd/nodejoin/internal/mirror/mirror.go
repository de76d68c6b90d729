// Package mirror fills a folder with the artifacts of a plan, under the names that a mirror block expects. It trusts
// neither the folder nor where it reads from: what counts are the digests of the lock.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/steps"
)

// Item is an artifact that a mirror has.
type Item struct {
	Name, Platform string
	File           string // its name in the folder
	Size           int64
	SHA256         string
	From           steps.Source
}

// State of a file in a folder.
type State int

// The states.
const (
	Missing State = iota
	Wrong         // it has other bytes
	There
)

// Items are the artifacts of a plan that a mirror can have, by the names of their files, and the names of those that
// it cannot, as the plan says where they come from.
func Items(p *plan.Compiled) (items []Item, others []string) {
	for _, a := range p.Artifacts {
		e := p.Lock.Lookup(a.Name, a.Platform())
		if a.MirrorFile == "" || e == nil {
			others = append(others, a.Name+" for "+a.Platform())
			continue
		}
		items = append(items, Item{a.Name, a.Platform(), a.MirrorFile, e.Size, e.SHA256, source(a, e)})
	}
	slices.SortFunc(items, func(a, b Item) int {
		if a.File < b.File {
			return -1
		}
		return 1
	})
	return items, others
}

// source is where an artifact is read from: its publisher where the lock names that, else what the plan says.
func source(a plan.Artifact, e *lock.Entry) steps.Source {
	if a.Upstream != "" && e.Address == a.Upstream {
		return steps.Source{URL: a.Upstream}
	}
	return a.From
}

// Folder is a mirror that is filled.
type Folder struct {
	Path string
	// OpenAt returns the bytes of an artifact from an offset on; size is that of the whole.
	OpenAt func(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error)
	// Parallel is how many are read at once.
	Parallel int
	// Fetched is called for each artifact that was read, Progress with bytes as they arrive; neither is nil, and
	// neither is called by two at once.
	Fetched  func(Item)
	Progress func(n int64)

	mu sync.Mutex
}

// part ends the name of a file that is not complete.
const part = ".part"

// Check compares a file with the lock.
func (f *Folder) Check(ctx context.Context, it Item) (State, error) {
	r, err := os.Open(f.at(it))
	if errors.Is(err, fs.ErrNotExist) {
		return Missing, nil
	}
	if err != nil {
		return Wrong, err
	}
	defer func() { _ = r.Close() }() // it was only read
	n, sum, err := digest(ctx, r)
	switch {
	case err != nil:
		return Wrong, err
	case n != it.Size || sum != it.SHA256:
		return Wrong, nil
	}
	return There, nil
}

// Fill reads what is missing or wrong. What was cut continues where it ended. All that goes wrong is returned, each
// with its artifact.
func (f *Folder) Fill(ctx context.Context, items []Item) error {
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		return err
	}
	errs := make([]error, len(items))
	var g errgroup.Group
	g.SetLimit(f.Parallel)
	for i, it := range items {
		g.Go(func() error {
			if err := f.one(ctx, it); err != nil {
				errs[i] = &Error{it, err}
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return none
	return errors.Join(errs...)
}

// Error is why an artifact is not in the mirror.
type Error struct {
	Item Item
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s for %s: %v", e.Item.Name, e.Item.Platform, e.Err)
}
func (e *Error) Unwrap() error { return e.Err }

func (f *Folder) one(ctx context.Context, it Item) error {
	state, err := f.Check(ctx, it)
	if err != nil || state == There {
		return err
	}
	resumed, err := f.fetch(ctx, it)
	var wrong *WrongBytesError
	if resumed && errors.As(err, &wrong) { // what was there may be of another file
		_, err = f.fetch(ctx, it)
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Fetched(it)
	return nil
}

// WrongBytesError is an artifact that is not what is locked.
type WrongBytesError struct {
	From         string
	Size         int64
	Digest, Want string
}

func (e *WrongBytesError) Error() string {
	return fmt.Sprintf("%s has the sha256 %s (%d bytes), and locked is %s", e.From, e.Digest, e.Size, e.Want)
}

// fetch reads an artifact into its part file, and gives that its name if its bytes are right. resumed reports whether
// a part was there already.
func (f *Folder) fetch(ctx context.Context, it Item) (resumed bool, err error) {
	w, err := os.OpenFile(f.at(it)+part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, err
	}
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = os.Rename(f.at(it)+part, f.at(it))
		}
		var wrong *WrongBytesError
		if errors.As(err, &wrong) {
			err = errors.Join(err, os.Remove(f.at(it)+part))
		}
	}()
	have, err := w.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	if have > it.Size {
		have = 0
		if err := w.Truncate(0); err != nil {
			return false, err
		}
		if _, err := w.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	}
	resumed = have > 0
	if have < it.Size {
		r, err := f.OpenAt(ctx, it.From, have, it.Size)
		if err != nil {
			return resumed, err
		}
		_, err = io.Copy(w, &metered{io.LimitReader(r, it.Size-have+1), f})
		if err = errors.Join(err, r.Close(), w.Sync()); err != nil {
			return resumed, err
		}
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return resumed, err
	}
	n, sum, err := digest(ctx, w)
	if err == nil && (n != it.Size || sum != it.SHA256) {
		err = &WrongBytesError{it.From.Name(), n, sum, it.SHA256}
	}
	return resumed, err
}

func (f *Folder) at(it Item) string { return filepath.Join(f.Path, it.File) }

// metered reports the bytes that are read.
type metered struct {
	io.Reader
	f *Folder
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.Progress(int64(n))
	return n, err
}

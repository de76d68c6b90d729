// Package hostlock keeps runs apart that would change one machine at the same time.
//
// The lock is one of the operating system (apply.lock), which drops it with the
// process that holds it, so it is never stale. Beside it apply.holder.json names the lock holder; if that
// file is there without the lock, a run did not end properly.
package hostlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// File and HolderFile are the names in the folder of the lock.
const (
	File       = "apply.lock"
	HolderFile = "apply.holder.json"
)

// retryEvery is the pause between tries while another run holds the lock.
const retryEvery = 100 * time.Millisecond

// Lock is the lock of one machine. Calls are made one at a time.
type Lock struct {
	dir  string
	file *flock.Flock
	run  string // of the holder; "" = not held
}

// New is the lock in the folder dir; it touches nothing yet.
func New(dir string) *Lock { return &Lock{dir: dir} }

// Held reports whether it is held.
func (l *Lock) Held() bool { return l.run != "" }

// Take takes the lock, waiting for another run for up to req.Wait. A lock that the same run holds stays
// held. That another run holds it is a reply; an error means that it is not known.
func (l *Lock) Take(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	if l.run == req.Holder.Run && l.run != "" {
		return steps.LockReply{}, nil
	}
	if l.run != "" || req.Holder.Run == "" {
		return steps.LockReply{}, fmt.Errorf("lock %s: it is held for the run %q, asked for by %q", l.dir, l.run,
			req.Holder.Run)
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return steps.LockReply{}, err
	}
	file := flock.New(filepath.Join(l.dir, File), flock.SetPermissions(0o600))
	if err := tryFor(ctx, file, req.Wait); err != nil {
		if !errors.Is(err, errTaken) {
			return steps.LockReply{}, fmt.Errorf("lock %s: %w", file.Path(), err)
		}
		by, err := l.holder()
		if err != nil {
			return steps.LockReply{}, err
		}
		if by == nil {
			// it has not written its name yet
			by = &steps.LockHolder{Command: "a run", User: "somebody", Host: "an unknown machine"}
		}
		return steps.LockReply{By: by}, nil
	}
	left, err := l.holder()
	if err == nil {
		err = l.write(req.Holder)
	}
	if err != nil {
		return steps.LockReply{}, errors.Join(err, file.Unlock())
	}
	l.file, l.run = file, req.Holder.Run
	if left != nil && left.Run == req.Holder.Run {
		left = nil // our own, over a connection that was lost
	}
	return steps.LockReply{Left: left}, nil
}

// Release releases the lock; if it is not held, it does nothing.
func (l *Lock) Release() error {
	if l.run == "" {
		return nil
	}
	err := untilFree(func() error { return os.Remove(filepath.Join(l.dir, HolderFile)) })
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, l.file.Unlock())
	l.file, l.run = nil, ""
	return err
}

var errTaken = errors.New("another process holds it")

// tryFor tries until the wait is over, at least once.
func tryFor(ctx context.Context, file *flock.Flock, bound time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, max(bound, 0), errTaken)
	defer cancel()
	return wait.Until(ctx, retryEvery, file.TryLock)
}

// maxHolder bounds what is read as a holder, in bytes.
const maxHolder = 16 << 10

// holder reads who holds or held the lock; nil = nobody.
func (l *Lock) holder() (*steps.LockHolder, error) {
	path := filepath.Join(l.dir, HolderFile)
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var h steps.LockHolder
	var b []byte
	err = untilFree(func() error {
		b, err = os.ReadFile(path)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxHolder || json.Unmarshal(b, &h) != nil || h.Run == "" {
		h = steps.LockHolder{Run: "unknown", Command: "a run", User: "somebody", Host: "an unknown machine",
			Since: fi.ModTime()}
	}
	return &h, nil
}

// write replaces the holder's file. The lock is held, so nobody else writes it.
func (l *Lock) write(h steps.LockHolder) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	path := filepath.Join(l.dir, HolderFile)
	temp := host.TempName(path)
	err = os.WriteFile(temp, append(b, '\n'), 0o600)
	if err == nil {
		err = untilFree(func() error { return os.Rename(temp, path) })
	}
	if err != nil {
		_ = os.Remove(temp) // of a disk that is full, it may be a part
	}
	return err
}

// heldBound and heldEvery say how long, and how often, a file is tried that another run reads.
const (
	heldBound = 2 * time.Second
	heldEvery = 20 * time.Millisecond
)

// untilFree calls f until no other program has the file open; that takes moments, so callers give no bound.
func untilFree(f func() error) error {
	for end := time.Now().Add(heldBound); ; time.Sleep(heldEvery) {
		if err := f(); !held(err) || time.Now().After(end) {
			return err
		}
	}
}

// Abandon releases the lock but leaves the holder's file, so that the next run reports it.
func (l *Lock) Abandon() error {
	if l.run == "" {
		return nil
	}
	err := l.file.Unlock()
	l.file, l.run = nil, ""
	return err
}

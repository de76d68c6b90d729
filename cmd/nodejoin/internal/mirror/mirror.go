// Package mirror fills a folder with the artifacts of a plan, under the names that a mirror block expects. It trusts
// neither the folder nor where it reads from: what counts are the digests of the lock.
package mirror

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nodejoin/steps"
)

// Folder is a mirror that is filled.
type Folder struct {
	Path string
	// OpenAt returns the bytes of an artifact from an offset on; size is that of the whole.
	OpenAt func(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error)
	// Parallel is how many are read at once.
	Parallel int
	*Report
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
	return each(f.Parallel, items, func(it Item) error { return f.one(ctx, it) })
}

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
	f.fetched(it)
	return nil
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
		_, err = io.Copy(w, f.meter(io.LimitReader(r, it.Size-have+1)))
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

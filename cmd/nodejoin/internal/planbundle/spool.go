package planbundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Spool makes an empty folder beside the bundle out, for files on their way into it. done removes it. What a run that
// was killed has left there goes; while another run has it, there is an error.
func Spool(out string) (dir string, done func(), err error) {
	dir = filepath.Join(filepath.Dir(out), ".nodejoin-bundle-"+filepath.Base(out))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); err != nil || !ok {
		if err == nil {
			err = errors.New("it does so in " + dir)
		}
		return "", nil, fmt.Errorf("another run writes %s: %w", out, err)
	}
	done = func() { remove(dir, lock) }
	left, err := os.ReadDir(dir)
	for _, e := range left {
		if e.Name() != lockFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return dir, done, nil
}

// remove removes a folder that this run has locked.
func remove(dir string, lock *flock.Flock) {
	_ = os.RemoveAll(dir) // before another run may have it
	_ = lock.Close()
	_ = os.RemoveAll(dir) // Windows removes no file that is open
}

// temp begins the names of folders of Temp.
const temp = "nodejoin-check-"

// Temp makes an empty folder in the system's folder for temporary files. done removes it. What runs of this user that
// were killed have left there goes.
func Temp() (dir string, done func(), err error) {
	list, _ := os.ReadDir(os.TempDir()) // else the folder cannot be made either
	for _, e := range list {
		if at := filepath.Join(os.TempDir(), e.Name()); strings.HasPrefix(e.Name(), temp) && own(at) {
			lock := flock.New(filepath.Join(at, lockFile), flock.SetPermissions(0o600))
			if ok, err := lock.TryLock(); err == nil && ok {
				remove(at, lock)
			}
		}
	}
	const tries = 5
	for n := 1; ; n++ {
		if dir, err = os.MkdirTemp("", temp); err != nil {
			return "", nil, err
		}
		lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
		err = hold(lock)
		if err == nil {
			return dir, func() { remove(dir, lock) }, nil
		}
		if remove(dir, lock); n == tries {
			return "", nil, err
		}
	}
}

// errTaken says that another run took a folder for one that was left.
var errTaken = errors.New("another run removes folders as they are made")

// hold locks a folder that this run has just made. A file system may have no locks.
func hold(lock *flock.Flock) error {
	ok, err := lock.TryLock()
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !ok:
		return errTaken
	case errors.As(err, new(*fs.PathError)):
		return err
	}
	have, failed := lock.Stat()
	if failed != nil || err != nil { // it has none
		return failed
	}
	if there, err := os.Stat(lock.Path()); err != nil || !os.SameFile(have, there) {
		return errTaken
	}
	return nil
}

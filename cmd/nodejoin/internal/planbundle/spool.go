package planbundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	done = func() {
		_ = os.RemoveAll(dir) // before another run may have it
		_ = lock.Close()
		_ = os.RemoveAll(dir) // Windows removes no file that is open
	}
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

//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeDirs creates a directory and its missing parents with the default access,
// whatever the process's umask is.
func makeDirs(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	} else if err != nil && !errors.Is(absent(err), fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeDirs(parent); err != nil {
			return err
		}
	}
	err := makeDir(path, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		return nil // made by another since
	}
	return fmt.Errorf("%w: %s is not a directory", fs.ErrExist, path)
}

// makeDir makes one directory that nobody else can enter before it has its mode.
func makeDir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode&0o700); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// joined is the first error as it is when there is only one.
func joined(first, second error) error {
	if first == nil {
		return second
	}
	if second == nil {
		return first
	}
	return errors.Join(first, second)
}

// syncDir has the entries of a directory written to the disk; a file system that
// cannot do that (EINVAL, fsync(2)) is not an error.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil
	}
	return joined(err, d.Close())
}

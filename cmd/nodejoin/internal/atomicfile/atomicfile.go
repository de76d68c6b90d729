// Package atomicfile writes files of the controller in one step.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Write writes a file in one step: after a failure it has its old content. If name is a link, the file behind it is
// written. What is there and is not a file, such as /dev/stdout or a pipe, is written into and stays.
func Write(name string, data []byte, mode fs.FileMode) error {
	switch info, err := os.Stat(name); {
	case err != nil || info.Mode().IsRegular():
	case info.IsDir():
		return fmt.Errorf("%s is a folder", name)
	default:
		return stream(name, data)
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sweep(filepath.Dir(name))
	const tries = 5
	for n := 1; ; n++ {
		swept, err := replace(name, data, mode)
		if !swept || n == tries {
			return err
		}
	}
}

// Create writes a file that is not there, in one step. It overwrites nothing.
func Create(name string, data []byte) (err error) {
	sweep(filepath.Dir(name))
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(name), unfinished+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL,
		0o666) // what the umask leaves of it
	if err != nil {
		return err
	}
	hold(tmp)
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return place(tmp, name)
}

// replace writes a file in one step. swept reports that another run took the unfinished file for one that was left.
func replace(name string, data []byte, mode fs.FileMode) (swept bool, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), unfinished+"*")
	if err != nil {
		return false, err
	}
	hold(tmp)
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := tmp.Chmod(mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return false, err
	}
	if _, err := tmp.Write(data); err != nil {
		return false, err
	}
	if err := tmp.Sync(); err != nil {
		return false, err
	}
	err = rename(tmp, name)
	return errors.Is(err, fs.ErrNotExist), err
}

// unfinished begins the name of a file that is being written.
const unfinished = ".nodejoin-write-"

// sweep removes what runs that were killed have left in a folder. Its failures do not matter.
func sweep(dir string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), unfinished) && e.Type().IsRegular() {
			if name := filepath.Join(dir, e.Name()); left(name) {
				_ = os.Remove(name)
			}
		}
	}
}

// stream writes into a device or a pipe. A pipe that nobody reads is an error, not a wait.
func stream(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

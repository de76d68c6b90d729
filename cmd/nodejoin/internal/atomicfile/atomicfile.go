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
	return again(func() error { return replace(name, data, mode) })
}

// Create writes a file that is not there, in one step. It overwrites nothing.
func Create(name string, data []byte) error {
	sweep(filepath.Dir(name))
	return again(func() error { return create(name, data) })
}

// tries is how often a write is tried whose unfinished file another run takes for one that was left.
const tries = 20

// again repeats such a write.
func again(write func() error) (err error) {
	for range tries {
		if err = write(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func create(name string, data []byte) (err error) {
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(name), unfinished+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL,
		0o666) // what the umask leaves of it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := hold(tmp); err != nil {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return place(tmp, name)
}

// replace writes a file in one step.
func replace(name string, data []byte, mode fs.FileMode) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), unfinished+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := hold(tmp); err != nil {
		return err
	}
	if err := tmp.Chmod(mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return rename(tmp, name)
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

// Package atomicfile writes files of the controller in one step.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Write writes a file in one step: after a failure it has its old content. If name is a link, the file behind it is
// written. What is there and is not a file, such as /dev/stdout or a pipe, is written into and stays.
func Write(name string, data []byte, mode fs.FileMode) (err error) {
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
	if err := tmp.Chmod(mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

const (
	unfinished = ".nodejoin-write-" // begins the name of a file that is being written
	// leftoverAge is when such a file is of a run that was killed.
	leftoverAge = time.Hour
)

// sweep removes what runs that were killed have left in a folder. Its failures do not matter.
func sweep(dir string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), unfinished) && info.Mode().IsRegular() &&
			time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
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

//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// hold locks a file that is being written, so that no other run takes it for one that was left. One that did so before
// removes it; then the error is fs.ErrNotExist. The lock ends with the process. A file system may have no locks.
func hold(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: syscall.ENOENT}
	}
	_, err := os.Lstat(f.Name())
	return err
}

// rename gives a file its name and closes it. It is locked until then.
func rename(f *os.File, name string) error {
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return f.Close()
}

// link gives a file a name that is not taken, and closes it.
func link(f *os.File, name string) error {
	if err := os.Link(f.Name(), name); err != nil {
		return err
	}
	err := os.Remove(f.Name())
	if errors.Is(err, fs.ErrNotExist) { // another run took it for one that was left
		err = nil
	}
	return errors.Join(err, f.Close())
}

// leftoverAge is when a file was left by a run that was killed, where a file system has no locks.
const leftoverAge = time.Hour

// left reports whether the run that wrote a file has ended.
func left(name string) bool {
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // nothing was written
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return true
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false
	}
	info, err := f.Stat()
	return err == nil && time.Since(info.ModTime()) > leftoverAge
}

//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// Rename moves a file, replacing newPath. A running program may be moved away; it
// runs on under its new name.
func (h *Host) Rename(ctx context.Context, oldPath, newPath string) error {
	const op = "rename to"
	if err := begin(ctx, op, oldPath); err != nil {
		return err
	}
	if err := begin(ctx, op, newPath); err != nil {
		return err
	}
	if _, err := os.Lstat(oldPath); err != nil {
		return failed(op, newPath, absent(err))
	}
	if err := replace(oldPath, newPath); err != nil {
		return failed(op, newPath, err)
	}
	if from := filepath.Dir(filepath.Clean(oldPath)); from != filepath.Dir(filepath.Clean(newPath)) {
		return failed(op, newPath, syncDir(from))
	}
	return nil
}

// Remove deletes a file or an empty directory; a link itself is deleted.
func (h *Host) Remove(ctx context.Context, path string) error {
	const op = "remove"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	if err := replaceable(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return failed(op, path, err)
	}
	err := os.Remove(path)
	if errors.Is(absent(err), fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(op, path, err)
	}
	return failed(op, path, syncDir(filepath.Dir(filepath.Clean(path))))
}

// replaceable refuses a path that a directory occupies (fs.ErrExist) or a program
// that runs from it (host.ErrBusy). Linux would allow replacing a running program; nodejoin does not, so
// that what runs is always what is on the disk.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(absent(err), fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%w: a directory is in the way", fs.ErrExist)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	pids, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		var exe unix.Stat_t
		// Processes end and zombies have no program; those of other accounts are
		// only seen by root, which nodejoin runs as.
		if err := unix.Stat(procPath(pid, "exe"), &exe); err == nil && exe.Dev == st.Dev && exe.Ino == st.Ino {
			return fmt.Errorf("%w: process %d", host.ErrBusy, pid)
		}
	}
	return nil
}

//go:build linux

package linux

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

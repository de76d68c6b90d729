//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// Stat describes a file or directory; links are followed.
func (h *Host) Stat(ctx context.Context, path string) (host.FileInfo, error) {
	const op = "stat"
	if err := begin(ctx, op, path); err != nil {
		return host.FileInfo{}, err
	}
	if name, ok := h.journalOf(path); ok {
		info, err := statJournal(ctx, path, name)
		return info, failed(op, path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return host.FileInfo{}, failed(op, path, absent(err))
	}
	out := describe(filepath.Base(path), info)
	if link, err := os.Lstat(path); err == nil && !trusted(link) {
		out.Open = true // who owns a link can have it lead elsewhere
	}
	return out, nil
}

// Open reads a file from its start.
func (h *Host) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	const op = "open"
	if err := begin(ctx, op, path); err != nil {
		return nil, err
	}
	if name, ok := h.journalOf(path); ok {
		rc, err := openJournal(ctx, name)
		return rc, failed(op, path, err)
	}
	// NONBLOCK: the open of a fifo without a writer would not return.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, failed(op, path, absent(err))
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err != nil {
		return nil, failed(op, path, errors.Join(err, f.Close()))
	}
	return f, nil
}

// List returns the entries of a directory, sorted by name. A link is described by
// what it leads to, a broken one by itself.
func (h *Host) List(ctx context.Context, path string) ([]host.FileInfo, error) {
	const op = "list"
	if err := begin(ctx, op, path); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, failed(op, path, absent(err))
	}
	out := make([]host.FileInfo, 0, len(entries))
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, failed(op, path, context.Cause(ctx))
		}
		info, err := os.Stat(filepath.Join(path, e.Name()))
		if err != nil {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since the directory was read
		}
		if err != nil {
			return nil, failed(op, path, err)
		}
		entry := describe(e.Name(), info)
		if entry.Elsewhere, err = elsewhere(filepath.Join(path, e.Name()), e); err != nil {
			return nil, failed(op, path, err)
		}
		out = append(out, entry)
	}
	return out, nil
}

// elsewhere reports whether an entry is a link or a mount point. A kernel before 5.8 cannot report mount
// points (statx(2), STATX_ATTR_MOUNT_ROOT); for a directory that is an error, so that nobody enters another
// file system unknowingly.
func elsewhere(path string, e fs.DirEntry) (bool, error) {
	if e.Type()&fs.ModeSymlink != 0 {
		return true, nil
	}
	var st unix.Statx_t
	err := ignoringEINTR(func() error { return unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st) })
	switch {
	case errors.Is(absent(err), fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 && e.IsDir():
		return false, fmt.Errorf("%w: whether %s is a mount point", host.ErrUnsupported, path)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// FreeBytes is the space left for this account on the volume of path's nearest
// existing ancestor.
func (h *Host) FreeBytes(ctx context.Context, path string) (uint64, error) {
	const op = "read free space"
	if err := begin(ctx, op, path); err != nil {
		return 0, err
	}
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		var st unix.Statfs_t
		err := ignoringEINTR(func() error { return unix.Statfs(at, &st) })
		if errors.Is(absent(err), fs.ErrNotExist) && at != "/" {
			continue
		}
		if err != nil {
			return 0, failed(op, path, err)
		}
		return st.Bavail * uint64(st.Bsize), nil
	}
}

// ignoringEINTR calls f again when a signal interrupted it.
func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

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
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// Mkdir creates a directory and its missing parents.
func (h *Host) Mkdir(ctx context.Context, path string, access host.Access) error {
	const op = "make directory"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	mode, err := modeOf(access, true)
	if err != nil {
		return failed(op, path, err)
	}
	if err := makeDirs(filepath.Dir(filepath.Clean(path))); err != nil {
		return failed(op, path, err)
	}
	switch err := makeDir(path, mode); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		return failed(op, path, err)
	}
	return failed(op, path, setMode(path, mode, true))
}

// setMode changes the mode of a file or directory, unless it has it already. The
// wrong kind of file is fs.ErrExist for a directory.
func setMode(path string, mode fs.FileMode, dir bool) error {
	link, err := os.Lstat(path)
	if err != nil {
		return absent(err)
	}
	if link.Mode()&fs.ModeSymlink != 0 && !trusted(link) {
		return fmt.Errorf("%w: the link at %s", host.ErrForeign, path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return absent(err)
	case mode&0o077 == 0 && !trusted(info) && (!dir || info.IsDir()):
		return takeOver(path, mode, link.Mode()&fs.ModeSymlink != 0)
	case dir && !info.IsDir():
		return fmt.Errorf("%w: a file is in the way", fs.ErrExist)
	case info.Mode()&0o7777 == mode:
		return nil
	}
	return os.Chmod(path, mode)
}

// takeOver gives a file or folder to the user of this process, with a private mode. What it was opened as stays
// what is changed, whatever its earlier owner puts in its place meanwhile.
func takeOver(path string, mode fs.FileMode, link bool) error {
	flags := os.O_RDONLY | unix.O_NONBLOCK
	if !link {
		flags |= unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chown(os.Geteuid(), -1), f.Chmod(mode), f.Close())
}

// SetAccess changes who may read and write a file or directory.
func (h *Host) SetAccess(ctx context.Context, path string, access host.Access) error {
	const op = "set access"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return failed(op, path, absent(err))
	}
	mode, err := modeOf(access, info.IsDir())
	if err != nil {
		return failed(op, path, err)
	}
	return failed(op, path, setMode(path, mode, info.IsDir()))
}

// WriteFile replaces path atomically with the bytes of r. A link at path is
// replaced, not followed.
func (h *Host) WriteFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	const op = "write file"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	return failed(op, path, writeFile(ctx, path, r, opt))
}

func writeFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	mode, err := modeOf(opt.Access, false)
	if err != nil {
		return err
	}
	if err := replaceable(path); err != nil {
		return err
	}
	if err := makeDirs(filepath.Dir(filepath.Clean(path))); err != nil {
		return err
	}
	temp := host.TempName(path)
	err = writeTemp(ctx, temp, r, path, mode, opt.SHA256)
	switch {
	case err == nil && opt.Followed:
		err = move(temp, path)
	case err == nil:
		err = replace(temp, path)
	}
	if err != nil {
		return joined(err, drop(temp))
	}
	return nil
}

// writeTemp makes the temporary file again, so that nobody has it open, and checks
// the digest before it returns.
func writeTemp(ctx context.Context, temp string, r io.Reader, path string, mode fs.FileMode, want string) error {
	if err := drop(temp); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = host.Copy(ctx, f, r, path, want); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return joined(err, f.Close())
}

func drop(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(absent(err), fs.ErrNotExist) {
		return err
	}
	return nil
}

// replace moves a file over another and has the move written to the disk.
func replace(from, to string) error {
	if err := move(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(to)))
}

// move moves a file over another. A later syncDir has that written to the disk.
func move(from, to string) error {
	if err := replaceable(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// CreateExclusive creates a new file that appears with all its content. Its parents
// are made as for WriteFile.
func (h *Host) CreateExclusive(ctx context.Context, path string, data []byte) error {
	const op = "create file"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	return failed(op, path, createExclusive(path, data))
}

func createExclusive(path string, data []byte) error {
	dir := filepath.Dir(filepath.Clean(path))
	if err := makeDirs(dir); err != nil {
		return err
	}
	// A file without a name, which gets one when it is complete (open(2), O_TMPFILE).
	f, err := os.OpenFile(dir, os.O_WRONLY|unix.O_TMPFILE, 0o600)
	nameless := err == nil
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil && nameless {
		err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), unix.AT_FDCWD, path,
			unix.AT_SYMLINK_FOLLOW)
	}
	if err = joined(err, f.Close()); err != nil {
		if !nameless {
			err = joined(err, os.Remove(path))
		}
		return err
	}
	return syncDir(dir)
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

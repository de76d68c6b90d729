//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// Mkdir creates a directory and its missing parents, which only administrators can change.
func (h *Host) Mkdir(ctx context.Context, path string, access host.Access) error {
	const op = "make directory"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return failed(op, path, errors.New("a file of this name exists"))
		}
		return h.SetAccess(ctx, path, access)
	}
	clean := filepath.Clean(path)
	if access != host.AccessPrivate {
		if err := makeFolders(clean); err != nil {
			return failed(op, path, err)
		}
		return h.SetAccess(ctx, path, access)
	}
	if err := makeFolders(filepath.Dir(clean)); err != nil {
		return failed(op, path, err)
	}
	made, err := makeFolder(clean, privateDir)
	if err == nil && !made {
		return h.SetAccess(ctx, path, access)
	}
	return failed(op, path, err)
}

// WriteFile replaces path atomically with the bytes of r.
func (h *Host) WriteFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	const op = "write file"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	if err := makeFolders(filepath.Dir(filepath.Clean(path))); err != nil {
		return failed(op, path, err)
	}
	temp := host.TempName(path)
	if err := writeTemp(ctx, temp, r, path, opt); err != nil {
		return failed(op, path, errors.Join(err, dropTemp(temp)))
	}
	if err := replace(ctx, temp, path); err != nil {
		return failed(op, path, errors.Join(err, dropTemp(temp)))
	}
	return failed(op, path, touch(path))
}

// touch notifies those who watch a file's folder once more. The first notification comes while the move
// still holds the file; a watcher that cannot read it then tries again only at the next one. containerd,
// which reads CNI configurations this way (internal/cri/server/cni_conf_syncer.go), would stay without a
// network forever.
func touch(path string) error {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	f, err := windows.CreateFile(p, windows.FILE_WRITE_ATTRIBUTES, shareAll, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return err
	}
	now := windows.NsecToFiletime(time.Now().UnixNano())
	return errors.Join(windows.SetFileTime(f, nil, nil, &now), windows.CloseHandle(f))
}

func dropTemp(temp string) error {
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeTemp makes the temporary file again, so that it has the access that opt
// wants from its first byte, and checks the digest before it returns.
func writeTemp(ctx context.Context, temp string, r io.Reader, path string, opt host.WriteOptions) error {
	if err := dropTemp(temp); err != nil {
		return err
	}
	f, err := createNew(temp, opt.Access)
	if err != nil {
		return err
	}
	if err = host.Copy(ctx, f, r, path, opt.SHA256); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func createNew(path string, access host.Access) (*os.File, error) {
	sa, err := securityAttributes(access)
	if err != nil {
		return nil, err
	}
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	f, err := windows.CreateFile(p, windows.GENERIC_WRITE, windows.FILE_SHARE_READ|windows.FILE_SHARE_DELETE, sa,
		windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(f), path), nil
}

// CreateExclusive creates a new file with this content; its access is inherited.
func (h *Host) CreateExclusive(ctx context.Context, path string, data []byte) error {
	const op = "create file"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	f, err := createNew(path, host.AccessDefault)
	if err != nil {
		return failed(op, path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return failed(op, path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Rename moves a file, replacing newPath.
func (h *Host) Rename(ctx context.Context, oldPath, newPath string) error {
	const op = "rename to"
	if err := errors.Join(begin(ctx, op, oldPath), begin(ctx, op, newPath)); err != nil {
		return err
	}
	return failed(op, newPath, replace(ctx, oldPath, newPath))
}

// Remove deletes a file or an empty directory.
func (h *Host) Remove(ctx context.Context, path string) error {
	const op = "remove"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	err := os.Remove(path) // clears the read-only attribute itself
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return failed(op, path, busy(err, path))
}

// heldBound and heldEvery are how long, and how often, to retry while another program, such as a second nodejoin
// or a scanner, has a file open for reading. Windows does not report the end of such a handle; Go's own tools
// retry for as long (cmd/internal/robustio).
const (
	heldBound = 2 * time.Second
	heldEvery = 20 * time.Millisecond
)

// replace moves a file over another and has the move written to the disk.
func replace(ctx context.Context, from, to string) error {
	ctx, cancel := context.WithTimeout(ctx, heldBound)
	defer cancel()
	var err error
	_ = wait.Until(ctx, heldEvery, func() (bool, error) { // at the bound, err is that of the last try
		err = replaceNow(from, to)
		return !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
			errors.Is(err, host.ErrBusy), nil
	})
	return err
}

func replaceNow(from, to string) error {
	fromPtr, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	toPtr, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	const flags = windows.MOVEFILE_REPLACE_EXISTING | windows.MOVEFILE_WRITE_THROUGH
	err = windows.MoveFileEx(fromPtr, toPtr, flags)
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return err
	}
	if attr, attrErr := windows.GetFileAttributes(toPtr); attrErr == nil && attr&windows.FILE_ATTRIBUTE_READONLY != 0 &&
		attr&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		if err := windows.SetFileAttributes(toPtr, attr&^windows.FILE_ATTRIBUTE_READONLY); err != nil {
			return err
		}
		if err = windows.MoveFileEx(fromPtr, toPtr, flags); err == nil {
			return nil
		}
	}
	return busy(err, to)
}

// busy distinguishes a file in use from missing rights. Replacing or deleting the image of a running
// program fails with ERROR_ACCESS_DENIED, like a missing right; only opening it for writing fails with
// ERROR_SHARING_VIOLATION.
func busy(err error, path string) error {
	p, ptrErr := windows.UTF16PtrFromString(path)
	if ptrErr != nil {
		return err
	}
	f, openErr := windows.CreateFile(p, windows.GENERIC_WRITE, shareAll, nil, windows.OPEN_EXISTING, 0, 0)
	if openErr == nil {
		windows.CloseHandle(f)
		return err
	}
	if errors.Is(openErr, windows.ERROR_SHARING_VIOLATION) {
		return fmt.Errorf("%w (%w)", host.ErrBusy, err)
	}
	return err
}

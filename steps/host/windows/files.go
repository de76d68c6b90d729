//go:build windows

package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// Stat describes a file or directory; links are followed.
func (h *Host) Stat(ctx context.Context, path string) (host.FileInfo, error) {
	if err := begin(ctx, "stat", path); err != nil {
		return host.FileInfo{}, err
	}
	info, err := h.stat(path)
	return info, failed("stat", path, err)
}

func (h *Host) stat(path string) (host.FileInfo, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return host.FileInfo{}, err
	}
	// Without data access, files that others hold exclusively can be opened too; BACKUP_SEMANTICS opens
	// directories.
	f, err := windows.CreateFile(p, windows.FILE_READ_ATTRIBUTES, shareAll, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return host.FileInfo{}, err
	}
	defer windows.CloseHandle(f)
	var by windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(f, &by); err != nil {
		return host.FileInfo{}, err
	}
	info := host.FileInfo{
		Name:    filepath.Base(path),
		Dir:     by.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0,
		ModTime: time.Unix(0, by.LastWriteTime.Nanoseconds()),
	}
	if !info.Dir {
		info.Size = int64(by.FileSizeHigh)<<32 | int64(by.FileSizeLow)
	}
	changed, err := changeTime(f)
	if err != nil {
		return host.FileInfo{}, err
	}
	info.ID = fmt.Sprintf("%x-%x%08x-%x", by.VolumeSerialNumber, by.FileIndexHigh, by.FileIndexLow, changed)
	info.Access, info.Open, err = h.access(path)
	if err == nil {
		var foreign bool
		foreign, err = h.foreignLink(path)
		info.Open = info.Open || foreign
	}
	return info, err
}

// foreignLink reports whether a junction or link is at path that others than administrators own: they can have it
// lead elsewhere.
func (h *Host) foreignLink(path string) (bool, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return false, err
	}
	attributes, err := windows.GetFileAttributes(p)
	if err != nil || attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		return false, err
	}
	f, err := windows.CreateFile(p, windows.READ_CONTROL, shareAll, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(f)
	sd, err := windows.GetSecurityInfo(f, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return false, err
	}
	return h.foreignOwner(sd)
}

// OthersWrite reports whether others than the system and administrators own a file or the link at its path, may write
// it, or give themselves the right to.
func (h *Host) OthersWrite(path string) (bool, error) {
	_, open, err := h.accessBy(path, moves|writes)
	if err != nil || open {
		return open, err
	}
	return h.foreignLink(path)
}

// foreignOwner reports whether others than administrators own what has this descriptor.
func (h *Host) foreignOwner(sd *windows.SECURITY_DESCRIPTOR) (bool, error) {
	owner, _, err := sd.Owner()
	return owner == nil || !h.trusts(owner) && !administers(owner), err
}

const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// changeTime is the time of the last change of data or attributes. A file that replaces another may get the
// same index, so index and time together make the ID.
func changeTime(f windows.Handle) (int64, error) {
	// FILE_BASIC_INFO of winbase.h.
	var basic struct {
		CreationTime, LastAccessTime, LastWriteTime, ChangeTime int64
		FileAttributes                                          uint32
		_                                                       uint32
	}
	err := windows.GetFileInformationByHandleEx(f, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)),
		uint32(unsafe.Sizeof(basic)))
	return basic.ChangeTime, err
}

// Open reads a file from its start. The file can be renamed, replaced and deleted meanwhile.
func (h *Host) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := begin(ctx, "open", path); err != nil {
		return nil, err
	}
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, failed("open", path, err)
	}
	f, err := windows.CreateFile(p, windows.GENERIC_READ, shareAll, nil, windows.OPEN_EXISTING,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			err = errors.New("is a directory")
		}
		return nil, failed("open", path, err)
	}
	return os.NewFile(uintptr(f), path), nil
}

// List returns the entries of a directory. An entry that the system keeps locked
// (a page file) is listed without ID and access.
func (h *Host) List(ctx context.Context, path string) ([]host.FileInfo, error) {
	if err := begin(ctx, "list", path); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, failed("list", path, err)
	}
	infos := make([]host.FileInfo, 0, len(entries))
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, failed("list", path, context.Cause(ctx))
		}
		info, err := h.stat(filepath.Join(path, e.Name()))
		if err != nil {
			entry, entryErr := e.Info()
			switch {
			case errors.Is(entryErr, fs.ErrNotExist), errors.Is(err, fs.ErrNotExist) && !isLink(e): // gone since
				continue
			case entryErr != nil:
				return nil, failed("list", path, entryErr)
			}
			info = host.FileInfo{Dir: e.IsDir(), Size: entry.Size(), ModTime: entry.ModTime()}
		}
		info.Name, info.Elsewhere = e.Name(), isLink(e)
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b host.FileInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

func isLink(e fs.DirEntry) bool { return e.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0 }

// FreeBytes is the space left, for this account, on the volume of path's nearest
// existing folder.
func (h *Host) FreeBytes(ctx context.Context, path string) (uint64, error) {
	if err := begin(ctx, "free space", path); err != nil {
		return 0, err
	}
	dir := filepath.Clean(path)
	for {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			break
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, failed("free space", path, err)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return 0, failed("free space", path, fs.ErrNotExist)
		}
		dir = parent
	}
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, failed("free space", path, err)
	}
	var free, total, totalFree uint64
	err = windows.GetDiskFreeSpaceEx(p, &free, &total, &totalFree)
	return free, failed("free space", path, err)
}

// Mounts returns none: only an administrator mounts volumes in folders.
func (h *Host) Mounts(ctx context.Context, path string) ([]string, error) {
	return nil, begin(ctx, "list mounts", path)
}

// Unmount has nothing to do, since nothing is mounted.
func (h *Host) Unmount(ctx context.Context, path string) error { return begin(ctx, "unmount", path) }

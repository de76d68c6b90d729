//go:build windows

package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// SetAccess changes who may read and write path. AccessDefault and AccessProgram restore inheritance on a
// private path, and leave any other alone.
func (h *Host) SetAccess(ctx context.Context, path string, access host.Access) error {
	const op = "set access"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	info, err := h.stat(path)
	if err != nil {
		return failed(op, path, err)
	}
	if foreign, err := h.foreignLink(path); err != nil || foreign && access == host.AccessPrivate {
		return failed(op, path, cmp.Or(err, host.ErrForeign))
	}
	switch access {
	case host.AccessDefault, host.AccessPrivate, host.AccessProgram:
	default:
		return failed(op, path, fmt.Errorf("%w: access %q", fs.ErrInvalid, access))
	}
	if (access == host.AccessPrivate) == (info.Access == host.AccessPrivate) {
		return nil
	}
	if access == host.AccessPrivate {
		return failed(op, path, makePrivate(path, info.Dir))
	}
	return failed(op, path, inheritAccess(path))
}

func makePrivate(path string, dir bool) error {
	sddl := privateFile
	if dir {
		sddl = privateDir
	}
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	acl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	// By name, so that what is in a folder inherits; then on the object itself,
	// where Wine, unlike Windows, has kept the parent's entries.
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION |
		windows.PROTECTED_DACL_SECURITY_INFORMATION
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what, owner, nil, acl, nil); err != nil {
		return err
	}
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	f, err := windows.CreateFile(p, windows.READ_CONTROL|windows.WRITE_DAC|windows.WRITE_OWNER, shareAll, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return err
	}
	return errors.Join(windows.SetKernelObjectSecurity(f, what, sd), windows.CloseHandle(f))
}

// inheritAccess removes path's own entries and inherits the parent's.
func inheritAccess(path string) error {
	sd, err := windows.SecurityDescriptorFromString("D:") // a list without entries
	if err != nil {
		return err
	}
	empty, _, err := sd.DACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.UNPROTECTED_DACL_SECURITY_INFORMATION, nil, nil, empty, nil)
}

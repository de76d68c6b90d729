package selftest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unicode/utf16"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// junction: what a user puts in place of a folder is recognised, and what it leads to is not touched.
func (t *test) junction() {
	if !t.asked(askJunction, 0) {
		return
	}
	target, path := t.dir+`\target`, t.dir+`\junction`
	inside := target + `\theirs`
	if err := errors.Join(os.Mkdir(target, 0o700), os.WriteFile(inside, []byte("theirs"), 0o600)); err != nil {
		t.see(askJunction, 0, nil, err)
		return
	}
	t.later("the junction and its target are removed", func(context.Context) error {
		return errors.Join(os.RemoveAll(path), os.RemoveAll(target))
	})
	if err := errors.Join(MakeJunction(path, target), GiveToUsers(path)); err != nil {
		t.see(askJunction, 0, nil, fmt.Errorf("%w: none can be made: %w", errNotAsked, err))
		return
	}
	info, err := t.host.Stat(t.ctx, path)
	t.see(askJunction, 0, info, errors.Join(err, is(info.Open)))
	t.see("it is not made private", 0, nil, isError(t.host.SetAccess(t.ctx, path, host.AccessPrivate), host.ErrForeign))
	removed := t.host.Remove(t.ctx, path)
	text, err := os.ReadFile(inside)
	t.see("its removal leaves what it leads to", 0, string(text), errors.Join(removed, err, is(string(text) == "theirs")))
}

// MakeJunction makes a junction: a folder with a reparse point (REPARSE_DATA_BUFFER of ntifs.h).
func MakeJunction(path, target string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	shown := utf16.Encode([]rune(target))
	meant := append(utf16.Encode([]rune(`\??\`)), shown...)
	size := 2 * (len(meant) + 1 + len(shown) + 1) // of both names, with their ends
	b := binary.LittleEndian.AppendUint32(nil, windows.IO_REPARSE_TAG_MOUNT_POINT)
	for _, n := range []int{8 + size, 0, 0, 2 * len(meant), 2 * (len(meant) + 1), 2 * len(shown)} {
		b = binary.LittleEndian.AppendUint16(b, uint16(n)) // length, reserved, then offset and length of each name
	}
	for _, name := range [][]uint16{meant, {0}, shown, {0}} {
		for _, c := range name {
			b = binary.LittleEndian.AppendUint16(b, c)
		}
	}
	return withLink(path, windows.GENERIC_WRITE, func(f windows.Handle) error {
		var n uint32
		return windows.DeviceIoControl(f, windows.FSCTL_SET_REPARSE_POINT, &b[0], uint32(len(b)), nil, 0, &n, nil)
	})
}

// GiveToUsers makes the group Users the owner of a junction, not of what it leads to.
func GiveToUsers(path string) error {
	sid, err := windows.CreateWellKnownSid(windows.WinBuiltinUsersSid)
	if err = errors.Join(err, privilege("SeRestorePrivilege", true)); err != nil { // it allows any owner
		return err
	}
	return withLink(path, windows.WRITE_OWNER, func(f windows.Handle) error {
		return windows.SetSecurityInfo(f, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION, sid, nil, nil, nil)
	})
}

// withLink opens a link itself.
func withLink(path string, access uint32, do func(windows.Handle) error) error {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	f, err := windows.CreateFile(p, access, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), windows.CloseHandle(f))
}

//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// notedKey has a value for each note. It is volatile: Windows keeps such a key in memory only, so it is gone
// after a boot (learn.microsoft.com/windows/win32/api/winreg/nf-winreg-regcreatekeyexw).
const notedKey = `SOFTWARE\nodejoin-reboot`

// RebootNoted lists the notes.
func (h *Host) RebootNoted(ctx context.Context) ([]string, error) {
	_, out, err := h.RegistryNames(ctx, `HKLM\`+notedKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(out)
	return out, err
}

// NoteReboot adds a note.
func (h *Host) NoteReboot(ctx context.Context, what string) error {
	const op = "note a reboot for"
	if ctx.Err() != nil {
		return failed(op, what, context.Cause(ctx))
	}
	k, err := createVolatile(notedKey)
	if err != nil {
		return failed(op, what, err)
	}
	defer k.Close()
	return failed(op, what, k.SetDWordValue(what, 1))
}

var regCreateKeyEx = windows.NewLazySystemDLL("advapi32.dll").NewProc("RegCreateKeyExW")

// createVolatile opens or makes a volatile key below HKEY_LOCAL_MACHINE.
func createVolatile(path string) (registry.Key, error) {
	const regOptionVolatile = 1 // winnt.h
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var k windows.Handle
	r, _, _ := regCreateKeyEx.Call(uintptr(registry.LOCAL_MACHINE), uintptr(unsafe.Pointer(name)), 0, 0,
		regOptionVolatile,
		registry.SET_VALUE|registry.QUERY_VALUE|registry.WOW64_64KEY, 0, uintptr(unsafe.Pointer(&k)), 0)
	if r != 0 {
		return 0, windows.Errno(r)
	}
	return registry.Key(k), nil
}

// rebootDelay is the time until the machine goes down, in seconds: enough for an answer
// to reach the controller.
const rebootDelay = 5

// rebootReason is "operating system: reconfiguration (planned)" in the event log
// (reason.h: SHTDN_REASON_MAJOR_OPERATINGSYSTEM, MINOR_RECONFIG, FLAG_PLANNED).
const rebootReason = 0x00020000 | 0x00000004 | 0x80000000

var initiateSystemShutdownEx = windows.NewLazySystemDLL("advapi32.dll").NewProc("InitiateSystemShutdownExW")

// plannedWithin bounds how long a request of nodejoin can be what Windows has scheduled. Past it, somebody else has.
const plannedWithin = 2 * rebootDelay * time.Second

// Reboot requests a reboot. Programs that do not end by themselves are killed. A shutdown that is already planned is
// nodejoin's own if the machine goes down within rebootDelay; a later one is host.ErrShutdownPlanned, and stays.
func (h *Host) Reboot(ctx context.Context) error {
	const op = "reboot"
	if ctx.Err() != nil {
		return failed(op, "the machine", context.Cause(ctx))
	}
	// Which of the two Windows asks for depends on how the user has logged in: SSH is a
	// network logon. One that the user does not have is reported by the call itself.
	_ = holdPrivilege("SeRemoteShutdownPrivilege")
	if err := holdPrivilege("SeShutdownPrivilege"); err != nil {
		return failed(op, "the machine", err)
	}
	message, err := windows.UTF16PtrFromString("nodejoin: changes take effect after a reboot")
	if err != nil {
		return failed(op, "the machine", err)
	}
	bound, cancel := context.WithTimeout(ctx, plannedWithin)
	defer cancel()
	waited := wait.Until(bound, pollEvery, func() (bool, error) {
		var ok uintptr
		ok, _, err = initiateSystemShutdownEx.Call(0, uintptr(unsafe.Pointer(message)), rebootDelay, 1, 1, rebootReason)
		if ok != 0 || errors.Is(err, windows.ERROR_SHUTDOWN_IN_PROGRESS) {
			err = nil
		}
		return !errors.Is(err, windows.ERROR_SHUTDOWN_IS_SCHEDULED), nil
	})
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case waited != nil:
		err = fmt.Errorf("%w (%w)", host.ErrShutdownPlanned, err)
	}
	return failed(op, "the machine", err)
}

// holdPrivilege lets this process use a privilege of its user.
func holdPrivilege(name string) error {
	var token windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ADJUST_PRIVILEGES|windows.TOKEN_QUERY,
		&token); err != nil {
		return err
	}
	defer token.Close()
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	p := windows.Tokenprivileges{PrivilegeCount: 1}
	p.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
	if err := windows.LookupPrivilegeValue(nil, text, &p.Privileges[0].Luid); err != nil {
		return err
	}
	return windows.AdjustTokenPrivileges(token, false, &p, 0, nil, nil)
}

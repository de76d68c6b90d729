package selftest

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	advapi32 = windows.NewLazySystemDLL("advapi32.dll")
	initiate = advapi32.NewProc("InitiateSystemShutdownExW")
	abort    = advapi32.NewProc("AbortSystemShutdownW")
)

// shutdownDelay in seconds: the shutdown is aborted long before, and if the abort fails there is time to do so by
// hand (shutdown /a).
const shutdownDelay = 600

// shutdown: which privilege a request for a reboot needs, and what a second one gets.
func (t *test) shutdown() {
	const asked = askPrivilege
	if !t.asked(asked, 7) {
		return
	}
	network, err := networkLogon()
	if err = errors.Join(err, privilege("SeShutdownPrivilege", true),
		privilege("SeRemoteShutdownPrivilege", false)); err != nil {
		t.see(asked, 7, nil, fmt.Errorf("%w: %w", errNotAsked, err))
		return
	}
	alone := requestReboot()
	seen := fmt.Sprintf("network logon: %v; with SeShutdownPrivilege alone: %v", network, alone)
	made := alone == nil
	if alone != nil {
		both := errors.Join(privilege("SeRemoteShutdownPrivilege", true), requestReboot())
		seen += fmt.Sprintf("; with both: %v", both)
		made = both == nil
	}
	t.see(asked, 7, seen, is(network == (alone != nil)))
	if !t.see("a reboot can be requested", 7, seen, is(made)) {
		return
	}
	second := requestReboot()
	aborted, _, err := abort.Call(0)
	t.see("a second request for a reboot is refused with 1190", 0, fmt.Sprintf("%#v", second),
		isError(second, windows.ERROR_SHUTDOWN_IS_SCHEDULED))
	if aborted != 0 {
		err = nil
	} else {
		t.report.Differs = append(t.report.Differs,
			fmt.Sprintf("the machine reboots in %d seconds, unless shutdown /a stops it: %v", shutdownDelay, err))
	}
	t.see("the shutdown is aborted", 0, nil, err)
}

func requestReboot() error {
	text, err := windows.UTF16PtrFromString("nodejoin's self-test asks which privilege this needs; it is aborted at once")
	if err != nil {
		return err
	}
	const planned = 0x80020004 // as steps/host/windows has it
	if ok, _, err := initiate.Call(0, uintptr(unsafe.Pointer(text)), shutdownDelay, 0, 1, planned); ok == 0 {
		return err
	}
	return nil
}

func privilege(name string, on bool) error {
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
	if on {
		p.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
	}
	if err := windows.LookupPrivilegeValue(nil, text, &p.Privileges[0].Luid); err != nil {
		return err
	}
	return windows.AdjustTokenPrivileges(token, false, &p, 0, nil, nil)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc/mgr"
)

func probes() map[string]probe {
	return map[string]probe{"services": askServices, "hns": askHNS, "shutdown": askShutdown, "ssh": askSSH}
}

// machine is this machine in the words of an evidence file.
func machine() (evidence, error) {
	const key = `SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return evidence{}, err
	}
	defer k.Close()
	build, _, err := k.GetStringValue("CurrentBuildNumber")
	if err != nil {
		return evidence{}, err
	}
	revision, _, err := k.GetIntegerValue("UBR")
	if err != nil {
		return evidence{}, err
	}
	edition, _, err := k.GetStringValue("EditionID")
	if err != nil {
		return evidence{}, err
	}
	languages, err := windows.GetSystemPreferredUILanguages(windows.MUI_LANGUAGE_NAME)
	if err != nil {
		return evidence{}, fmt.Errorf("the language of the system: %w", err)
	}
	if len(languages) == 0 {
		return evidence{}, errors.New("the system names no language")
	}
	return evidence{Build: fmt.Sprintf("%s.%d", build, revision), Language: languages[0], Edition: edition}, nil
}

// askServices: some services of others cannot be read.
func askServices(context.Context) []answer {
	const name = "services that cannot be read"
	m, err := mgr.Connect()
	if err != nil {
		return []answer{{name: name, err: err}}
	}
	defer m.Disconnect()
	all, err := m.ListServices()
	if err != nil {
		return []answer{{name: name, err: err}}
	}
	var failed []string
	for _, one := range all {
		if err := readService(m, one); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %#v", one, err))
		}
	}
	return []answer{{name: name, expected: len(failed) > 0,
		seen: fmt.Sprintf("%d of %d: %s", len(failed), len(all), strings.Join(failed, ", "))}}
}

func readService(m *mgr.Mgr, name string) error {
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	h, err := windows.OpenService(m.Handle, text, windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return err
	}
	s := &mgr.Service{Name: name, Handle: h}
	defer s.Close()
	_, err = s.Config()
	return err
}

var (
	advapi32 = windows.NewLazySystemDLL("advapi32.dll")
	initiate = advapi32.NewProc("InitiateSystemShutdownExW")
	abort    = advapi32.NewProc("AbortSystemShutdownW")
)

// shutdownDelay in seconds: the shutdown is aborted long before, and if the abort
// fails there is time to do so by hand (shutdown /a).
const shutdownDelay = 600

// askShutdown: which privilege a request for a reboot needs, and what a second one gets.
func askShutdown(context.Context) []answer {
	network, err := networkLogon()
	if err != nil {
		return []answer{{name: "shutdown", err: err}}
	}
	if err := privilege("SeShutdownPrivilege", true); err != nil {
		return []answer{{name: "shutdown", err: err}}
	}
	if err := privilege("SeRemoteShutdownPrivilege", false); err != nil {
		return []answer{{name: "shutdown", err: err}}
	}
	alone := requestReboot()
	needs := answer{name: "a network logon needs SeRemoteShutdownPrivilege", expected: network == (alone != nil),
		seen: fmt.Sprintf("network logon: %v; with SeShutdownPrivilege alone: %v", network, alone)}
	if alone != nil {
		if err := privilege("SeRemoteShutdownPrivilege", true); err != nil {
			return []answer{needs, {name: "a second request for a reboot", err: err}}
		}
		both := requestReboot()
		needs.seen += fmt.Sprintf("; with both: %v", both)
		if both != nil {
			return []answer{needs}
		}
	}
	second := requestReboot()
	aborted, _, err := abort.Call(0)
	last := answer{name: "a shutdown is aborted", expected: aborted != 0, seen: fmt.Sprint(err)}
	return []answer{needs, {name: "a second request for a reboot is refused with 1190",
		expected: errors.Is(second, windows.ERROR_SHUTDOWN_IS_SCHEDULED), seen: fmt.Sprintf("%#v", second)}, last}
}

func requestReboot() error {
	text, err := windows.UTF16PtrFromString("nodejoin asks which privilege this needs; it is aborted at once")
	if err != nil {
		return err
	}
	const planned = 0x80020004 // as steps/host/windows has it
	if ok, _, err := initiate.Call(0, uintptr(unsafe.Pointer(text)), shutdownDelay, 0, 1, planned); ok == 0 {
		return err
	}
	return nil
}

// networkLogon reports whether this process has the group NETWORK, as a login by SSH gives it.
func networkLogon() (bool, error) {
	sid, err := windows.CreateWellKnownSid(windows.WinNetworkSid)
	if err != nil {
		return false, err
	}
	return windows.Token(0).IsMember(sid)
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

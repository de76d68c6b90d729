package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
)

// isThisMachine reports whether this process runs on the machine of host, and not on a computer that only
// simulates it: it then finds a file that was written there.
func (t *test) isThisMachine(ctx context.Context) (bool, error) {
	path, text := host.Join("windows", t.dir, "here"), fmt.Sprint(time.Now().UnixNano(), " ", os.Getpid())
	if err := t.host.WriteFile(ctx, path, strings.NewReader(text), host.WriteOptions{}); err != nil {
		return false, fmt.Errorf("%w: %w", errNotAsked, err)
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != text {
		return false, fmt.Errorf("%w: the machine is simulated", errNotAsked)
	}
	return true, errors.Join(t.host.Remove(ctx, path), t.host.Remove(ctx, t.dir))
}

// describe adds revision and language to the report.
func (t *test) describe(context.Context) {
	if !t.native {
		return
	}
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`,
		registry.QUERY_VALUE)
	if err == nil {
		if revision, _, err := k.GetIntegerValue("UBR"); err == nil {
			t.report.Build += fmt.Sprintf(".%d", revision)
		}
		k.Close()
	}
	if languages, err := windows.GetSystemPreferredUILanguages(windows.MUI_LANGUAGE_NAME); err == nil &&
		len(languages) > 0 {
		t.report.Language = languages[0]
	}
}

// asked reports whether native calls reach the machine; if not, name was not asked.
func (t *test) asked(name string, claim int) bool {
	if !t.native {
		t.see(name, claim, nil, t.nativeWhy)
	}
	return t.native
}

// foreignServices: some services of others cannot be read.
func (t *test) foreignServices() {
	const name = askForeign
	if !t.asked(name, 2) {
		return
	}
	m, err := mgr.Connect()
	if err != nil {
		t.see(name, 2, nil, err)
		return
	}
	defer func() { _ = m.Disconnect() }()
	all, err := m.ListServices()
	var failed []string
	for _, one := range all {
		if err := readService(m, one); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %#v", one, err))
		}
	}
	t.see(name, 2, fmt.Sprintf("%d of %d: %s", len(failed), len(all), strings.Join(failed, ", ")),
		errors.Join(err, is(len(failed) > 0)))
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

// events writes one entry under a source of its own, which is removed. The entry stays in the log.
func (t *test) events() {
	const name = askEvent
	if !t.asked(name, 0) {
		return
	}
	if err := eventlog.InstallAsEventCreate(ownName, eventlog.Info); err != nil {
		t.see(name, 0, nil, err)
		return
	}
	t.later("the source of the event log is removed", func(context.Context) error { return eventlog.Remove(ownName) })
	log, err := eventlog.Open(ownName)
	if err == nil {
		err = errors.Join(log.Info(1, "nodejoin's self-test: 한국어"), log.Close())
	}
	t.see(name, 0, nil, err)
}

var (
	kernel32         = windows.NewLazySystemDLL("kernel32.dll")
	getNamedPipeInfo = kernel32.NewProc("GetNamedPipeInfo")
	getOEMCP         = kernel32.NewProc("GetOEMCP")
)

// connection says what the output of this process is, and the code page of the system.
func (t *test) connection() {
	const name = askPipe
	if !t.asked(name, 8) {
		return
	}
	out := windows.Handle(os.Stderr.Fd())
	kind, err := windows.GetFileType(out)
	codePage, _, _ := getOEMCP.Call()
	if err != nil || kind != windows.FILE_TYPE_PIPE {
		t.see(name, 8, nil, fmt.Errorf("%w: standard error is not a pipe (type %d, %w); code page %d", errNotAsked, kind,
			err, codePage))
		return
	}
	info, err := namedPipe(out)
	network, unknown := networkLogon()
	t.see(name, 8, fmt.Sprintf("%+v; code page %d; network logon %v", info, codePage, network),
		errors.Join(err, unknown, is(info.Out == 4096 || info.In == 4096)))
}

// networkLogon reports whether this process has the group NETWORK, as a login by SSH gives it.
func networkLogon() (bool, error) {
	sid, err := windows.CreateWellKnownSid(windows.WinNetworkSid)
	if err != nil {
		return false, err
	}
	return windows.Token(0).IsMember(sid)
}

// pipe is what Windows says of a pipe.
type pipe struct{ Flags, Out, In uint32 }

func namedPipe(h windows.Handle) (p pipe, err error) {
	ok, _, err := getNamedPipeInfo.Call(uintptr(h), uintptr(unsafe.Pointer(&p.Flags)), uintptr(unsafe.Pointer(&p.Out)),
		uintptr(unsafe.Pointer(&p.In)), 0)
	if ok == 0 {
		return p, err
	}
	return p, nil
}

// later undoes something at the end of the area; what says so as a sentence.
func (t *test) later(what string, do func(ctx context.Context) error) {
	t.undos = append(t.undos, undo{what, do})
}

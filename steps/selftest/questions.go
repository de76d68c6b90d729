package selftest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"nodejoin/steps/host"
)

// machine: its description is complete and constant.
func (t *test) machine() {
	first, err := t.host.Facts(t.ctx)
	t.see("the machine describes itself", 12, fmt.Sprintf("%+v", first), errors.Join(err,
		is(first.Hostname != "" && first.Build != "" && !first.BootTime.IsZero())))
	t.see("nodejoin runs as an administrator", 0, first.Admin, is(first.Admin))
	noted, err := t.host.RebootNoted(t.ctx)
	t.see("what needs a reboot is known", 12, noted, err)
	name, err := t.host.HostName(t.ctx)
	t.see("the machine has the same name after a boot", 0, name, errors.Join(err, is(name.Now == name.Next)))
	adapters, err := t.host.Adapters(t.ctx)
	t.see("adapters are listed", 0, adapters, err)
	routes, err := t.host.Routes(t.ctx)
	t.see("routes are listed", 0, len(routes), err)
	listeners, err := t.host.Listeners(t.ctx)
	t.see("listening ports are listed", 0, len(listeners), err)
}

// files: access, replacement, removal.
func (t *test) files() {
	path := host.Join(t.facts.OS, t.dir, "private")
	write := func(text string) error {
		return t.host.WriteFile(t.ctx, path, strings.NewReader(text), host.WriteOptions{Access: host.AccessPrivate})
	}
	if !t.see("a private file is written, and replaced", 16, nil, errors.Join(write("1"), write("2"))) {
		return
	}
	text, err := t.read(path)
	t.see("it is read back", 0, text, errors.Join(err, is(text == "2")))
	info, err := t.host.Stat(t.ctx, path)
	t.see("only the system and administrators can read it", 0, info, errors.Join(err,
		is(info.Access == host.AccessPrivate && !info.Open)))
	info, err = t.host.Stat(t.ctx, t.dir)
	t.see("others cannot change its folder", 0, info, errors.Join(err, is(!info.Open)))
	free, err := t.host.FreeBytes(t.ctx, t.dir)
	t.see("the free space is known", 0, free, errors.Join(err, is(free > 0)))
	moved := path + ".moved"
	t.see("it is moved and removed", 0, nil, errors.Join(t.host.Rename(t.ctx, path, moved), t.host.Remove(t.ctx, moved)))
	_, err = t.host.Stat(t.ctx, moved)
	t.see("what is not there is absent", 0, err, isError(err, fs.ErrNotExist))
	t.junction()
}

func (t *test) read(path string) (string, error) {
	f, err := t.host.Open(t.ctx, path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(text), errors.Join(err, f.Close())
}

// programs: a program runs to its end.
func (t *test) programs() {
	command := []string{"/bin/sh", "-c", "echo selftest; exit 3"}
	if t.facts.OS == "windows" {
		command = []string{`C:\Windows\System32\cmd.exe`, "/d", "/c", "echo selftest& exit 3"}
	}
	const asked = "a program runs to its end"
	if _, err := t.host.Stat(t.ctx, command[0]); err != nil {
		t.see(asked, 0, nil, fmt.Errorf("%w: %s: %w", errNotAsked, command[0], err))
		return
	}
	log := host.Join(t.facts.OS, t.dir, "program.log")
	code, err := t.host.RunProgram(t.ctx, host.Program{Command: command, Log: log})
	text, unread := t.read(log)
	t.see(asked, 8, fmt.Sprintf("code %d, %q", code, text), errors.Join(err, unread,
		is(code == 3 && strings.TrimSpace(text) == "selftest")))
}

// services: one is registered, read back, changed and removed; those of others do not hinder it.
func (t *test) services() {
	want := host.ServiceConfig{Name: ownName, DisplayName: ownName, Description: "of nodejoin's self-test; remove it",
		Command: []string{`C:\Windows\System32\` + ownName + ".exe", "two words", `C:\end\`}, Start: host.StartManual}
	if t.facts.OS == "linux" {
		want.Command = []string{"/usr/bin/" + ownName, "two words"}
	}
	err := t.host.CreateService(t.ctx, want)
	if !t.see("a service is registered", 0, nil, err) {
		return
	}
	check := func(name string) {
		have, err := t.host.Service(t.ctx, ownName)
		t.see(name, 0, have, errors.Join(err, is(same(have.ServiceConfig, want) && have.State == host.ServiceStopped)))
	}
	check("it is read back as it was written")
	t.started(want)
	want.Start, want.Environment = host.StartDisabled, []string{"A=1"}
	want.Recovery, want.RecoveryReset = []host.RecoveryAction{{Action: "restart", Delay: 5e9}}, 3600
	t.see("it is changed", 0, nil, t.host.UpdateService(t.ctx, want))
	check("recovery, environment and start type are read back")
	list, err := t.host.Dependents(t.ctx, ownName)
	t.see("services of others do not hinder the question of what depends on it", 2, list,
		errors.Join(err, is(len(list) == 0)))
	t.see("it is stopped although it does not run, and removed", 2, nil,
		errors.Join(t.host.StopService(t.ctx, ownName), t.host.DeleteService(t.ctx, ownName)))
	_, err = t.host.Service(t.ctx, ownName)
	t.see("it is gone at once", 0, err, isError(err, fs.ErrNotExist))
	t.foreignServices()
}

func same(a, b host.ServiceConfig) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// registry: a value of each type.
func (t *test) registry() {
	for name, v := range map[string]host.RegistryValue{
		"string": {Type: "string", String: "한국어"}, "expand": {Type: "expand_string", String: "%SystemRoot%"},
		"multi": {Type: "multi_string", Strings: []string{"a", "b"}}, "dword": {Type: "dword", Number: 1 << 31},
		"qword": {Type: "qword", Number: 1 << 40}, "binary": {Type: "binary", Binary: []byte{0, 255}},
	} {
		err := t.host.SetRegistryValue(t.ctx, ownKey, name, v)
		have, unread := t.host.RegistryValue(t.ctx, ownKey, name)
		if err = errors.Join(err, unread, is(fmt.Sprint(have) == fmt.Sprint(v))); err != nil {
			t.see("registry: "+name+" is read back as it was written", 0, have, err)
		}
	}
	_, values, err := t.host.RegistryNames(t.ctx, ownKey)
	t.see("values of six types are read back as they were written", 0, values, errors.Join(err, is(len(values) == 6)))
	t.see("values and key are removed", 0, nil, t.removeKey(t.ctx))
	_, err = t.host.RegistryValue(t.ctx, ownKey, "dword")
	t.see("a value of a key that is not there is absent", 0, err, isError(err, fs.ErrNotExist))
}

// environment: a variable of the machine.
func (t *test) environment() {
	err := t.host.SetMachineEnv(t.ctx, ownVar, "1")
	have, unread := t.host.MachineEnv(t.ctx, ownVar)
	t.see("a variable of the machine is set", 0, have, errors.Join(err, unread, is(have == "1")))
	err = t.host.UnsetMachineEnv(t.ctx, ownVar)
	_, gone := t.host.MachineEnv(t.ctx, ownVar)
	t.see("it is unset", 0, nil, errors.Join(err, isError(gone, fs.ErrNotExist)))
}

// firewall: a rule that blocks nothing: it allows a port of a program that is not there.
func (t *test) firewall() {
	rule := host.FirewallRule{Name: ownName, DisplayName: ownName, Description: "of nodejoin's self-test; remove it",
		Direction: "in", Action: "allow", Protocol: "tcp", Ports: fmt.Sprint(ownPorts.First), Remote: "192.0.2.1",
		Program: `C:\Windows\System32\` + ownName + ".exe"}
	if !t.see("a rule of the firewall is added", 18, nil, t.host.PutFirewallRule(t.ctx, rule)) {
		return
	}
	have, err := t.host.FirewallRule(t.ctx, ownName)
	t.see("it is read back as it was written", 18, have, errors.Join(err, is(have == rule)))
	t.see("it is removed", 0, nil, t.host.DeleteFirewallRule(t.ctx, ownName))
	_, err = t.host.FirewallRule(t.ctx, ownName)
	t.see("a rule that is not there is absent", 0, err, isError(err, fs.ErrNotExist))
}

// features are only looked at: to turn one on needs a reboot.
func (t *test) features() {
	state, err := t.host.Feature(t.ctx, "Containers")
	t.see("the state of the feature Containers is known", 17, state, err)
	_, err = t.host.Feature(t.ctx, ownName)
	t.see("a feature that Windows does not know is absent (0x800f080c)", 17, err, isError(err, fs.ErrNotExist))
}

func (t *test) ports() {
	for _, protocol := range []string{"tcp", "udp"} {
		r, err := t.host.DynamicPorts(t.ctx, protocol)
		t.see("the ephemeral ports of "+protocol+" are known", 0, r, err)
	}
	if before, err := t.host.PortsReserved(t.ctx, ownPorts); err != nil || before {
		t.see("a port is reserved", 0, nil, errors.Join(err, fmt.Errorf("%w: %s is reserved", errNotAsked, ownPorts)))
		return
	}
	err := t.host.ReservePorts(t.ctx, ownPorts)
	have, unread := t.host.PortsReserved(t.ctx, ownPorts)
	t.see("a port is reserved", 0, have, errors.Join(err, unread, is(have)))
	excluded, err := t.host.PortExcluded(t.ctx, "tcp", ownPorts.First)
	t.see("programs can still take a reserved port", 0, !excluded, errors.Join(err, is(!excluded)))
	err = t.host.ReleasePorts(t.ctx, ownPorts)
	have, unread = t.host.PortsReserved(t.ctx, ownPorts)
	t.see("it is released", 0, nil, errors.Join(err, unread, is(!have)))
}

// kernel writes a parameter with the value that it has.
func (t *test) kernel() {
	const name = "net.ipv4.ip_forward"
	value, err := t.host.Sysctl(t.ctx, name)
	if t.see("a kernel parameter is read", 0, name+" = "+value, err) {
		t.see("it is written with the value that it has", 0, nil, t.host.SetSysctl(t.ctx, name, value))
	}
	module, err := t.host.KernelModule(t.ctx, "overlay")
	t.see("the module overlay is known", 0, module, err)
	names, err := t.host.Interfaces(t.ctx)
	t.see("interfaces are listed", 0, names, err)
}

// ssh: what this connection rests on. sshd's own start type decides whether it is there after a reboot.
func (t *test) ssh() {
	sshd, err := t.host.Service(t.ctx, "sshd")
	if errors.Is(err, fs.ErrNotExist) {
		t.see("sshd starts with the machine", 4, nil, fmt.Errorf("%w: there is no service sshd", errNotAsked))
	} else {
		auto := sshd.Start == host.StartAuto || sshd.Start == host.StartDelayed
		t.see("sshd starts with the machine", 4, sshd.ServiceConfig, errors.Join(err, is(auto)))
	}
	shell, err := t.host.RegistryValue(t.ctx, openSSH, "DefaultShell")
	if errors.Is(err, fs.ErrNotExist) {
		shell.String, err = "none set: cmd.exe", nil
	}
	claim := 13
	if name := strings.ToLower(shell.String); strings.Contains(name, "powershell") || strings.Contains(name, "pwsh") {
		claim = 14
	}
	t.see("the self-test ran; with --self-test PLAN: over SSH with this default shell", claim, shell.String, err)
	t.connection()
}

// network: HNS, on a loopback adapter.
func (t *test) network() {
	networks, err := t.host.HNSNetworks(t.ctx)
	if errors.Is(err, host.ErrUnsupported) {
		t.see("without the feature Containers HNS is not supported", 9, err, nil)
		return
	}
	if !t.see("the networks of HNS are listed", 9, networks, err) {
		return
	}
	endpoints, err := t.host.HNSEndpoints(t.ctx)
	t.see("the endpoints of HNS are listed", 5, len(endpoints), err)
	t.onLoopback()
}

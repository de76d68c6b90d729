package sandbox

import (
	"context"
	"strings"
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/host/hosttest"
)

func TestConformance(t *testing.T) {
	for _, os := range []string{"windows", "linux"} {
		t.Run(os, func(t *testing.T) {
			hosttest.Run(t, func(t *testing.T) hosttest.Fixture { return fixture(t, os) })
		})
	}
}

func fixture(t *testing.T, os string) hosttest.Fixture {
	h, err := Open(t.Context(), Config{Path: t.TempDir(), OS: os,
		Broken: map[string]string{"once.exe": "exit 3", "endless.exe": "hang"}})
	if err != nil {
		t.Fatal(err)
	}
	f := hosttest.Fixture{
		Host: h, Dir: "/srv/scratch", Program: []string{"/srv/k/program"}, AbsentPipe: "unix:///run/no.sock", Trust: true,
		Notes: true, Rename: true,
		Pipe: func(t *testing.T) (string, func()) { return pipes[os][containerd], play(t, h, containerd) },
		HTTP: func(t *testing.T) (string, int, func()) {
			return "http://127.0.0.1:10256/healthz", 200, play(t, h, kubeProxy)
		},
	}
	if os == "linux" {
		f.Sysctl, f.Modules = "net.ipv4.ip_forward", []string{"overlay", "br_netfilter", "br-netfilter"}
	}
	if os == "windows" {
		f.Dir, f.Program, f.AbsentPipe = `C:\scratch`, []string{`C:\k\program.exe`}, `\\.\pipe\no`
		f.Registry, f.Firewall, f.Ports, f.Feature = true, true, true, "Microsoft-Hyper-V"
	}
	if err := h.Mkdir(t.Context(), f.Dir, host.AccessDefault); err != nil {
		t.Fatal(err)
	}
	put(t, h, f.Program[0], "program")
	folder := host.Dir(os, f.Program[0])
	once, endless := host.Join(os, folder, "once.exe"), host.Join(os, folder, "endless.exe")
	put(t, h, once, "program")
	put(t, h, endless, "program")
	f.Endless = []string{endless}
	f.Once = func(*testing.T) (host.Program, string) {
		return host.Program{Command: []string{once, "a", "b"}}, "a b\n"
	}
	return f
}

// put writes a program file on the machine.
func put(t *testing.T, h *Host, path, text string) {
	t.Helper()
	if err := h.WriteFile(t.Context(), path, strings.NewReader(text),
		host.WriteOptions{Access: host.AccessProgram}); err != nil {
		t.Fatal(err)
	}
}

// play runs one of the simulated programs; stop ends it.
func play(t *testing.T, h *Host, name string) (stop func()) {
	t.Helper()
	command := []string{"/srv/k/" + name}
	if h.windows() {
		command[0] = `C:\k\` + name + ".exe"
	}
	put(t, h, command[0], name)
	if err := h.CreateService(t.Context(),
		host.ServiceConfig{Name: name, Command: command, Start: host.StartManual}); err != nil {
		t.Fatal(err)
	}
	if err := h.StartService(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := h.StopService(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	}
}

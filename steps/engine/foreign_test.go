package engine_test

import (
	"errors"
	"strings"
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// seedForeign puts things of others onto a machine: in the folders that a join uses and beside them, and wherever a
// plan of these tests sets something itself.
func seedForeign(t *testing.T, h *sandbox.Host, osName string) {
	t.Helper()
	ctx := t.Context()
	put := func(paths ...string) (err error) {
		for _, path := range paths {
			err = errors.Join(err, h.WriteFile(ctx, path, strings.NewReader("theirs: "+path), host.WriteOptions{}))
		}
		return err
	}
	if osName == "linux" {
		for _, err := range []error{
			put("/etc/theirs/gone", "/opt/site/theirs", "/opt/cni/bin/theirs", "/opt/theirs/svc", "/usr/local/bin/theirs",
				"/etc/sysctl.d/50-theirs.conf", "/etc/modules-load.d/theirs.conf", "/etc/containerd/theirs.toml",
				"/var/log/theirs.log", "/etc/systemd/system/theirs.service", "/srv/store/theirs", "/etc/hosts"),
			h.WriteFile(ctx, "/etc/environment", strings.NewReader("THEIRS=x\nLANG=C\n"), host.WriteOptions{}),
			h.CreateService(ctx, host.ServiceConfig{Name: "theirs", Command: []string{"/opt/theirs/svc"},
				Start: host.StartAuto}),
			h.StartService(ctx, "theirs"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	for _, err := range []error{
		put(`C:\theirs\gone`, `C:\theirs\svc.exe`, `C:\site\theirs`, `C:\k\theirs.exe`, `C:\opt\cni\bin\theirs.exe`,
			`C:\var\log\theirs.log`, `C:\var\lib\kubelet.txt`, `C:\etc\hosts`, `C:\ProgramData\theirs.txt`,
			`C:\Program Files\containerd\theirs.txt`, `C:\tools\theirs.exe`, `C:\store\theirs`, `C:\metrics\theirs.prom`),
		h.CreateService(ctx, host.ServiceConfig{Name: "theirs", Command: []string{`C:\theirs\svc.exe`},
			Start: host.StartAuto}),
		h.StartService(ctx, "theirs"),
		h.SetRegistryValue(ctx, `HKLM\SOFTWARE\theirs`, "v", host.RegistryValue{Type: "dword", Number: 1}),
		h.SetRegistryValue(ctx, `HKLM\SOFTWARE\theirs`, "gone", host.RegistryValue{Type: "string", String: "x"}),
		h.SetRegistryValue(ctx, `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`, "theirs",
			host.RegistryValue{Type: "dword", Number: 1}),
		h.SetRegistryValue(ctx, `HKLM\SYSTEM\CurrentControlSet\Control\FileSystem`, "LongPathsEnabled",
			host.RegistryValue{Type: "dword", Number: 0}),
		h.SetMachineEnv(ctx, "THEIRS", "x"),
		h.SetMachineEnv(ctx, "NO_PROXY", "theirs.example"),
		h.PutFirewallRule(ctx, host.FirewallRule{Name: "theirs", Direction: "in", Action: "allow", Protocol: "tcp",
			Ports: "9090", Enabled: true}),
		h.PutHNSNetwork(ctx, host.HNSNetwork{ID: "1", Name: "nat", Type: "NAT"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

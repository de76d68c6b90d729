package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// settingScenarios are those of a machine's settings: registry, features, its name, environment, reboots.
func settingScenarios() []scenario {
	dword := func(n uint64) steps.Spec {
		return stepstest.Spec("registry", "reg", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`, Name: "Flags",
			RegistryValue: host.RegistryValue{Type: "dword", Number: n}})
	}
	counted := func() []steps.Spec {
		return []steps.Spec{stepstest.Spec("registry", "flags", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`,
			Name: "Flags", RegistryValue: host.RegistryValue{Type: "dword", Number: 1}, Reboot: "the flags"})}
	}
	env := func(v string) []steps.Spec {
		return []steps.Spec{stepstest.Spec("env", "env", &kinds.MachineEnv{Name: "K", Value: v})}
	}

	return []scenario{
		{name: "registry fresh", list: []steps.Spec{dword(1)}},
		{name: "feature",
			list: []steps.Spec{stepstest.Spec("feature", "f", &kinds.Feature{Name: "Microsoft-Hyper-V"})},
			verify: func(t *testing.T, h host.Host) {
				if s, err := h.Feature(t.Context(), "microsoft-hyper-v"); err != nil || s != host.FeatureOnPending {
					t.Errorf("the feature is %q, %v", s, err)
				}
			}},
		{name: "feature that is on", list: []steps.Spec{stepstest.Spec("feature", "f", &kinds.Feature{Name: "Containers"})}},
		{name: "ssh server", list: sshServer(sshKeyA), verify: wantSSH(sshKeyA + " ops\n")},
		{name: "ssh server that does not start with the machine", before: sshServer(sshKeyA),
			drift: func(t *testing.T, h host.Host) {
				svc, err := h.Service(t.Context(), "sshd")
				stepstest.Must(t, err)
				svc.Start = host.StartDisabled
				stepstest.Must(t, h.StopService(t.Context(), "sshd"))
				stepstest.Must(t, h.UpdateService(t.Context(), svc.ServiceConfig))
			}, list: sshServer(sshKeyA), verify: wantSSH(sshKeyA + " ops\n")},
		{name: "ssh server with other keys", before: sshServer(sshKeyA),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.WriteFile(t.Context(), sshKeysFile, strings.NewReader(sshKeyB),
					host.WriteOptions{}))
			}, list: sshServer(sshKeyA), verify: wantSSH(sshKeyB + "\n" + sshKeyA + " ops\n")},
		{name: "host name", list: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"})},
			verify: func(t *testing.T, h host.Host) {
				n, err := h.HostName(t.Context())
				noted, err2 := h.RebootNoted(t.Context())
				if err != nil || err2 != nil || n.Next != "node-1" || n.Now == "node-1" ||
					!slices.Equal(noted, []string{"the machine's new name node-1"}) {
					t.Errorf("the name is %+v, %v; noted %q, %v", n, err, noted, err2)
				}
			}},
		{name: "host name of linux", os: "linux",
			list: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"})},
			verify: func(t *testing.T, h host.Host) {
				n, err := h.HostName(t.Context())
				noted, err2 := h.RebootNoted(t.Context())
				if err != nil || err2 != nil || n != (host.HostName{Now: "node-1", Next: "node-1"}) || len(noted) > 0 {
					t.Errorf("the name is %+v, %v; noted %q, %v", n, err, noted, err2)
				}
			}},
		{name: "host name that counts", boots: true,
			list: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"}),
				stepstest.Spec("reboot", "boot", &kinds.Reboot{Policy: kinds.RebootAuto, HostName: "node-1"})},
			verify: func(t *testing.T, h host.Host) {
				if n, err := h.HostName(t.Context()); err != nil || n.Now != "node-1" || n.Next != "node-1" {
					t.Errorf("the name is %+v, %v", n, err)
				}
			}},
		{name: "host name renamed again",
			before: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"})},
			list:   []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-2"})}},
		{name: "registry counted after a reboot", list: counted(), verify: func(t *testing.T, h host.Host) {
			if noted, err := h.RebootNoted(t.Context()); err != nil || !slices.Equal(noted, []string{"the flags"}) {
				t.Errorf("noted %q, %v", noted, err)
			}
		}},
		{name: "reboot", boots: true,
			list: append(counted(), stepstest.Spec("feature", "f", &kinds.Feature{Name: "Microsoft-Hyper-V"}),
				stepstest.Spec("reboot", "boot",
					&kinds.Reboot{Policy: kinds.RebootAuto, Features: []string{"Microsoft-Hyper-V"}})),
			verify: func(t *testing.T, h host.Host) {
				s, err := h.Feature(t.Context(), "Microsoft-Hyper-V")
				noted, err2 := h.RebootNoted(t.Context())
				if err != nil || err2 != nil || s != host.FeatureOn || len(noted) > 0 {
					t.Errorf("the feature is %q, %v; noted %q, %v", s, err, noted, err2)
				}
			}},
		{name: "no reboot needed",
			list: []steps.Spec{stepstest.Spec("reboot", "boot", &kinds.Reboot{Policy: kinds.RebootNever})}},
		{name: "registry drifted", before: []steps.Spec{dword(1)}, list: []steps.Spec{dword(2)}},
		{name: "registry removed", before: []steps.Spec{dword(1)},
			list: []steps.Spec{stepstest.Spec("registry", "reg", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`,
				Name: "Flags", Absent: true})}},
		{name: "env fresh", list: env("1")},
		{name: "env drifted", before: env("1"), list: env("2")},
		{name: "env sensitive", before: env("http://a:b@x"),
			list: []steps.Spec{stepstest.Spec("env", "env", &kinds.MachineEnv{Name: "K", Value: "http://a:c@x",
				Sensitive: true})}},
		{name: "env removed", before: env("1"),
			list: []steps.Spec{stepstest.Spec("env", "env", &kinds.MachineEnv{Name: "K", Absent: true})}},
		{name: "env file", os: "linux",
			list: []steps.Spec{stepstest.Spec("env", "a", &kinds.MachineEnv{Name: "A", Value: "1", File: "/etc/x.env"}),
				stepstest.Spec("env", "b", &kinds.MachineEnv{Name: "B", Value: "2", File: "/etc/x.env"})},
			verify: holds("/etc/x.env", "A=1\nB=2\n")},
		{name: "env file drifted", os: "linux", drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, "/etc/environment", "# c\nA=0\nZ=9\nA=3")
		},
			list:   []steps.Spec{stepstest.Spec("env", "a", &kinds.MachineEnv{Name: "A", Value: "1"})},
			verify: holds("/etc/environment", "# c\nA=1\nZ=9\n")},
	}
}

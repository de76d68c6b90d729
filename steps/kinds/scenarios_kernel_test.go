package kinds_test

import (
	"errors"
	"io/fs"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// kernelScenarios are those of the kernel of Linux.
func kernelScenarios() []scenario {
	sysctl := func(name, value string) steps.Spec {
		return stepstest.Spec("sysctl", "sysctl", &kinds.Sysctl{Name: name, Value: value})
	}
	module := func(name string) steps.Spec {
		return stepstest.Spec("kernel_module", "module", &kinds.KernelModule{Name: name})
	}
	parameter := func(name, want string) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have, err := h.Sysctl(t.Context(), name); err != nil || have != want {
				t.Errorf("%s = %q, %v; want %q", name, have, err, want)
			}
		}
	}

	return []scenario{
		{name: "sysctl fresh", os: "linux", list: []steps.Spec{sysctl("net.ipv4.ip_forward", "1")},
			verify: parameter("net.ipv4.ip_forward", "1")},
		{name: "sysctl drifted", os: "linux", before: []steps.Spec{sysctl("net.ipv4.ip_forward", "1")},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.SetSysctl(t.Context(), "net.ipv4.ip_forward", "0"))
			},
			list: []steps.Spec{sysctl("net.ipv4.ip_forward", "1")}, verify: parameter("net.ipv4.ip_forward", "1")},
		{name: "sysctl lost at boot", os: "linux", before: []steps.Spec{sysctl("vm.max_map_count", "262144")},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), "/etc/sysctl.d/90-nodejoin-vm.max_map_count.conf"))
			},
			list: []steps.Spec{sysctl("vm.max_map_count", " 262144 ")},
			verify: holds("/etc/sysctl.d/90-nodejoin-vm.max_map_count.conf",
				"# Managed by nodejoin.\nvm.max_map_count = 262144\n")},
		{name: "sysctl of a module", os: "linux",
			list: []steps.Spec{module("br_netfilter"), sysctl("net.bridge.bridge-nf-call-iptables", "1")},
			verify: func(t *testing.T, h host.Host) {
				parameter("net.bridge.bridge-nf-call-iptables", "1")(t, h)
				holds("/etc/modules-load.d/nodejoin-br_netfilter.conf", "# Managed by nodejoin.\nbr_netfilter\n")(t, h)
			}},
		{name: "module loaded by another", os: "linux", drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.LoadKernelModule(t.Context(), "vxlan"))
		},
			list: []steps.Spec{module("vxlan")}, verify: holds("/etc/modules-load.d/nodejoin-vxlan.conf",
				"# Managed by nodejoin.\nvxlan\n")},
		{name: "module after a boot", os: "linux", before: []steps.Spec{module("vxlan")},
			drift: func(t *testing.T, h host.Host) { stepstest.Must(t, h.(*sandbox.Host).Reboot(t.Context())) },
			list:  []steps.Spec{module("vxlan")}},
		{name: "module built in", os: "linux", list: []steps.Spec{module("overlay")},
			verify: func(t *testing.T, h host.Host) {
				if _, err := h.Stat(t.Context(), "/etc/modules-load.d/nodejoin-overlay.conf"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a module that is built in has a file for the boot: %v", err)
				}
			}},
	}
}

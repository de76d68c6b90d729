package kinds_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

// shown is a machine with other facts.
type shown struct {
	host.Host
	change func(*host.Facts)
}

func (s shown) Facts(ctx context.Context) (host.Facts, error) {
	f, err := s.Host.Facts(ctx)
	s.change(&f)
	return f, err
}

func checkOne(t *testing.T, h host.Host, list ...steps.Spec) *steps.Error {
	t.Helper()
	reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {}).Check(t.Context(),
		executor.Request{Node: "lin-1", Steps: list})
	stepstest.Must(t, err)
	return reply.Results[len(reply.Results)-1].Err
}

func wantDetail(t *testing.T, err *steps.Error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Summary+" "+err.Detail+" "+err.Remedy, p) {
			t.Errorf("no %q in: %v; %s", p, err, err.Remedy)
		}
	}
}

// What a kubelet on Linux requires of the machine is found before anything is changed.
func TestPreflightOfLinux(t *testing.T) {
	plain := stepstest.OpenHost(t, "linux")
	all := stepstest.Spec("preflight", "r", &preflight.Preflight{OS: "linux", NoSwap: true, CgroupV2: true,
		Programs: []string{"iptables"}})
	if err := checkOne(t, plain, all); err != nil {
		t.Errorf("a machine that fits: %v", err)
	}
	odd := shown{plain, func(f *host.Facts) { f.Swap, f.Cgroup = 2<<30, "v1" }}
	wantDetail(t, checkOne(t, odd, all), "2 GiB of swap", "failSwapOn = false", "control groups v1",
		"failCgroupV1 = false")
	wantDetail(t,
		checkOne(t, plain,
			stepstest.Spec("preflight", "r", &preflight.Preflight{Programs: []string{"iptables", "no-such-program"}})),
		"no-such-program is not installed")
}

// A kernel parameter that no module provides is an error of the check. With the module before it, it is a change.
func TestSysctlWithoutItsModule(t *testing.T) {
	h := stepstest.OpenHost(t, "linux")
	bridge := stepstest.Spec("sysctl", "s", &kinds.Sysctl{Name: "net.bridge.bridge-nf-call-iptables", Value: "1"})
	wantDetail(t, checkOne(t, h, bridge), "no such kernel parameter", "br_netfilter")
	if err := checkOne(t, h, stepstest.Spec("kernel_module", "m", &kinds.KernelModule{Name: "br_netfilter"}),
		bridge); err != nil {
		t.Errorf("with the module before it: %v", err)
	}
	wantDetail(t,
		stepstest.Apply(t, h, stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("kernel_module", "m", &kinds.KernelModule{Name: "no_such"})}).Err, "no_such")
	if _, err := h.Stat(t.Context(), "/etc/modules-load.d/nodejoin-no_such.conf"); err == nil {
		t.Error("a module that cannot be loaded is in a file for the boot")
	}
}

// Kinds of Linux refuse Windows, and names that would be paths.
func TestKernelArguments(t *testing.T) {
	linux, windows := stepstest.OpenHost(t, "linux"), stepstest.OpenHost(t, "windows")
	for _, s := range []steps.Spec{
		stepstest.Spec("sysctl", "s", &kinds.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"}),
		stepstest.Spec("kernel_module", "m", &kinds.KernelModule{Name: "vxlan"}),
	} {
		wantDetail(t, checkOne(t, windows, s), "Windows has none")
	}
	for _, s := range []steps.Spec{
		stepstest.Spec("sysctl", "s", &kinds.Sysctl{Name: "../../etc/passwd", Value: "1"}),
		stepstest.Spec("sysctl", "s", &kinds.Sysctl{Name: "net/ipv4", Value: "1"}),
		stepstest.Spec("sysctl", "s", &kinds.Sysctl{Name: "net.ipv4.ip_forward", Value: "1\nkernel.panic = 1"}),
		stepstest.Spec("kernel_module", "m", &kinds.KernelModule{Name: "../x"}),
		stepstest.Spec("kernel_module", "m", &kinds.KernelModule{Name: "-r"}),
	} {
		if err := checkOne(t, linux, s); err == nil || errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s was accepted: %v", s.Args.JSON(), err)
		}
	}
}

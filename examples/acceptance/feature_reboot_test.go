package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/components"
)

const (
	// standIn is where the stand-ins store what Windows would, under the names that all of them use.
	standIn    = `registry HKEY_LOCAL_MACHINE\Software\nodejoin-stand-in`
	containers = standIn + `\Features "Containers"` // a DismPackageFeatureState
	// rebootWait bounds the time until a run requests its reboot.
	rebootWait = 2 * time.Minute
)

// hostBlock has the feature that needs a reboot, settings that take effect after one, and registry values.
const hostBlock = `
  host {
    features            = ["Containers"]
    page_file           = 8096
    tcp_keepalive       = "60s"
    crash_dump          = "kernel"
    windows_update      = "off"
    defender_exclusions = true
    long_paths          = true
    static_address      = true
    smb_names           = true
    dynamic_ports       = "40000-65535"
    reserved_ports      = ["50100-50199/tcp"]
    reboot              = "auto"
  }
`

// TestFeatureReboot: a machine without the feature Containers gets it, is rebooted through the Windows API in
// the middle of the run, and joins. The next run has nothing to change. Then the node is rebooted for another
// setting. A leave restores everything, the feature with the next boot.
func TestFeatureReboot(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	b.withoutContainers(ctx)
	args := b.planWithHost(hostBlock)
	b.wantPendingSeen(ctx, args)
	before := b.everything(ctx)

	rebooted := b.rebootWhenAsked(ctx)
	r := mustApply(ctx, t, args)
	if err := <-rebooted; err != nil {
		t.Fatal(err)
	}
	b.wantRebooted(r, "feature_containers", "containerd", "kubelet")
	b.wantJoined(ctx)
	joined := b.everything(ctx)
	const machine, policies = `registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\`,
		`registry HKEY_LOCAL_MACHINE\Software\Policies\Microsoft\`
	for name, want := range map[string]string{
		containers:                                                                   "dword:00000004",
		standIn + `\DynamicPorts "ipv4 tcp"`:                                         "dword:9c4063c0", // 40000, 25536 ports
		standIn + `\DynamicPorts "ipv6 tcp"`:                                         "dword:9c4063c0",
		standIn + `\ReservedPorts "tcp 50100-50199"`:                                 "hex(b):01,00,00,00,00,00,00,00",
		machine + `Services\hns "Start"`:                                             "dword:00000003",
		policies + `Windows\WindowsUpdate\AU "NoAutoUpdate"`:                         "dword:00000001",
		policies + `Windows Defender\Exclusions\Paths "C:\\ProgramData\\containerd"`: `"0"`,
		machine + `Services\hns\State "DeviceLessNicDisabled"`:                       "dword:00000001",
		machine + `Services\Tcpip\Parameters "KeepAliveTime"`:                        "dword:0000ea60",
		machine + `Control\CrashControl "CrashDumpEnabled"`:                          "dword:00000002",
	} {
		if joined[name] != want {
			t.Errorf("%s is %q, want %q", name, joined[name], want)
		}
	}
	wantNothing(ctx, t, args)

	// The Node is Ready now. It is drained while its machine reboots, and the service nodejoin-node fixes what
	// the boot has broken.
	args = b.planWithHost(strings.ReplaceAll(hostBlock, "8096", "4096"))
	healed := len(b.bootLog())
	rebooted = b.rebootWhenAsked(ctx)
	r = mustApply(ctx, t, args)
	if err := <-rebooted; err != nil {
		t.Fatal(err)
	}
	b.wantRebooted(r, "page_file")
	b.awaitHealed(ctx, healed)
	b.wantJoined(ctx)
	b.wantKubelet(ctx, components.Kubernetes)
	wantNothing(ctx, t, args)

	left := released(t).run(ctx, t, "leave", append([]string{"--target", nodeName}, args...), nil)
	if left.code != 0 {
		t.Fatalf("leave: %s", left)
	}
	if after := b.everything(ctx); after[containers] != "dword:00000001" {
		t.Errorf("after the leave the feature is %s, want 1 (removed by the next boot)", after[containers])
	}
	if err := b.host.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	// What Windows does at boot, the stand-in does on request.
	if out, code := released(t).output(ctx, t, append([]string{"plan", "--detailed-exitcode"}, args...)...); code != 2 ||
		!strings.Contains(out, "Containers") {
		t.Errorf("plan has exit code %d:\n%s", code, out)
	}
	// the agent, which plan and doctor leave on the machine
	d := slices.DeleteFunc(different(before, b.everything(ctx)), func(name string) bool {
		return strings.Contains(name, `\.nodejoin\`)
	})
	if len(d) > 0 {
		t.Errorf("the machine is not what it was before the join:\n%s", strings.Join(d[:min(len(d), 60)], "\n"))
	}
}

// withoutContainers makes the machine a fresh Windows Server: the feature is off, and its services do not
// exist.
func (b *bed) withoutContainers(ctx context.Context) {
	b.t.Helper()
	b.reg(ctx, "add", `HKLM\SOFTWARE\nodejoin-stand-in\Features`, "/v", "Containers", "/t", "REG_DWORD", "/d", "2", "/f")
	b.reg(ctx, "delete", `HKLM\SYSTEM\CurrentControlSet\Services\hns`, "/f")
	b.reg(ctx, "delete", `HKLM\SYSTEM\CurrentControlSet\Services\vmcompute`, "/f")
}

func (b *bed) reg(ctx context.Context, args ...string) {
	b.t.Helper()
	if out, err := b.host.Run(ctx, append([]string{"reg.exe"}, args...)...); err != nil {
		b.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// wantPendingSeen: doctor reports a reboot that is pending in the three places where Windows notes one.
// Afterwards the places are as before.
func (b *bed) wantPendingSeen(ctx context.Context, args []string) {
	b.t.Helper()
	const (
		update  = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`
		session = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager`
		files   = "PendingFileRenameOperations"
	)
	b.reg(ctx, "add", servicingWaits, "/f")
	b.reg(ctx, "add", update, "/f")
	b.reg(ctx, "add", session, "/v", files, "/t", "REG_MULTI_SZ", "/d", `\??\C:\old.txt`, "/f")
	var r doctorReport
	reported(ctx, b.t, &r, append([]string{"doctor", "--json"}, args...)...)
	if len(r.Hosts) != 1 {
		b.t.Fatalf("doctor checked %d machines, want 1", len(r.Hosts))
	}
	seen := ""
	for _, f := range r.Hosts[0].Findings {
		if f.ID == "pending-reboot" {
			seen += f.Observed
		}
	}
	want := "a reboot is pending for Windows Update, features or updates of Windows, files that are in use"
	if seen != want {
		b.t.Errorf("doctor says %q, want %q", seen, want)
	}
	b.reg(ctx, "delete", servicingWaits, "/f")
	b.reg(ctx, "delete", update, "/f")
	b.reg(ctx, "delete", session, "/v", files, "/f")
}

// rebootWhenAsked runs rebootAsked in parallel with the test.
func (b *bed) rebootWhenAsked(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- b.rebootAsked(ctx)
	}()
	return done
}

// rebootAsked performs the reboot that a program on the machine requests from Windows, after the delay of the
// request. It waits for the request for at most rebootWait.
func (b *bed) rebootAsked(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, rebootWait, fmt.Errorf("no reboot within %v", rebootWait))
	defer cancel()
	words, err := b.host.Asked(ctx)
	if err != nil {
		return err
	}
	var wait, force, reboot int
	var reason uint32
	if _, err := fmt.Sscanf(words, "%d %d %d 0x%x", &wait, &force, &reboot, &reason); err != nil || force != 1 ||
		reboot != 1 || reason != 0x80020004 {
		return fmt.Errorf("the request was %q (%w), want a forced reboot for a planned reconfiguration", words, err)
	}
	select {
	case <-time.After(time.Duration(wait) * time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := b.host.Stop(); err != nil {
		return err
	}
	b.network.Reboot()
	return b.host.Boot(ctx)
}

// wantRebooted checks that there was one reboot, after the step that needs it and before the steps behind it,
// and that the run saw it begin and end.
func (b *bed) wantRebooted(r *result, needs string, after ...string) {
	b.t.Helper()
	var order, seen []string
	for _, e := range r.events {
		switch {
		case e.Type == "step_done" && e.Result == "changed":
			order = append(order, e.Step)
		case e.Type == "host_state" && e.State == "rebooting":
			seen = append(seen, e.Detail)
		}
	}
	b.t.Logf("%d steps changed in %.1fs; states during the reboot: %q", len(order), r.took.Seconds(), seen)
	at := slices.Index(order, "reboot")
	if at < 0 || !slices.Contains(order[:at], needs) || slices.Contains(order[at+1:], "reboot") || len(seen) == 0 ||
		!slices.Contains(r.changed(), "reboot") {
		b.t.Fatalf("steps ran in the order %v, the summary says %v; states during the reboot: %q", order,
			r.changed(), seen)
	}
	for _, step := range after {
		if !slices.Contains(order[at:], step) {
			b.t.Errorf("%s did not run after the reboot: %v", step, order)
		}
	}
}

// planWithHost returns the arguments of the example plan with a host block in its profile.
func (b *bed) planWithHost(block string) []string {
	b.t.Helper()
	args := b.variables(b.host.Port()).write(b.t)
	args[len(args)-1] = filepath.Join(b.t.TempDir(), "plan.join.hcl")
	text := profileOS.ReplaceAll(exampleText(b.t), []byte("$0\n"+block))
	if err := os.WriteFile(args[len(args)-1], text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return args
}

package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// planDir is where a Linux machine has its own plan and nodejoin.
const planDir = "/root/plan"

// rebootStep is a step that needs a reboot on Linux: the machine's name differs from the one in its files.
const rebootStep = `
step "reboot" "name" {
  on        = node.` + linuxNode + `
  policy    = "auto"
  host_name = "` + linuxNode + `"
  after     = ["require"]
  before    = ["containerd_dir"]
}
`

// TestLinuxLocalReboot: nodejoin on a machine with systemd reboots the machine before the join and exits. The
// unit that it leaves waits for the network, continues after a power failure, joins the node and removes
// itself. The Ready node is rebooted in the same way: drained first, with its services started by systemd, and
// uncordoned after.
func TestLinuxLocalReboot(t *testing.T) {
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, true)
	before := b.snapshot()
	plan := b.putLocalPlan(rebootStep)

	b.rebootItself(ctx, plan)
	if _, err := os.Stat(b.machine.Path("/etc/containerd")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a step that needs the reboot ran before it: %v", err)
	}
	b.boot(ctx)
	b.awaitResume(ctx, "waiting for the machine to finish starting") // it has no network
	if err := b.machine.PowerOff(ctx); err != nil {
		t.Fatal(err)
	}
	b.boot(ctx)
	if err := b.machine.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantResumed(ctx, 1)
	b.wantLinuxNode(ctx, "systemd")
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)

	b.rebootItself(ctx, plan)
	b.boot(ctx)
	if err := b.machine.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantResumed(ctx, 2)
	b.wantLinuxNode(ctx, "systemd")
	for _, name := range []string{"net.bridge.bridge-nf-call-iptables", "net.ipv4.ip_forward"} {
		if out, err := b.machine.Run(ctx, "cat", "/proc/sys/"+strings.ReplaceAll(name, ".", "/")); err != nil ||
			strings.TrimSpace(out) != "1" {
			t.Errorf("%s after the boot: %q, %v", name, out, err)
		}
	}
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)

	if out, code := b.runLocally(ctx, "apply", "--auto-approve", plan); code != 0 ||
		!strings.Contains(out, "No changes") {
		t.Errorf("the second apply has exit code %d\n%s", code, out)
	}
	if out, code := b.runLocally(ctx, "history", plan); code != 0 || strings.Count(out, "resume") != 2 ||
		strings.Count(out, "reboot pending") != 2 {
		t.Errorf("history: exit code %d\n%s", code, out)
	}
	if out, code := b.runLocally(ctx, "leave", "--auto-approve", "--target", linuxNode, plan); code != 0 {
		t.Fatalf("leave: exit code %d\n%s", code, out)
	}
	after := b.snapshot()
	for _, s := range []map[string]string{before, after} {
		maps.DeleteFunc(s, func(path, _ string) bool {
			return strings.HasPrefix(path, "/root") || // the plan, nodejoin, and its history
				strings.HasPrefix(path, "/run/cloud-init/") || // another boot, where cloud-init is installed
				slices.Contains([]string{"/run/utmp", "/var/log/wtmp", "/run/sshd"}, path) // another boot
		})
	}
	wantSame(t, before, after)
}

// putLocalPlan copies nodejoin and a plan for the machine itself, with more steps, to the machine, and returns the
// path of the plan.
func (b *linuxBed) putLocalPlan(more string) string {
	b.t.Helper()
	kubeconfig := planDir + "/admin.kubeconfig"
	plan := strings.ReplaceAll(b.head(), b.cluster.Kubeconfig,
		kubeconfig) + b.linuxHostBy(`connection "local" {}`) + more
	if err := os.Mkdir(b.machine.Path(planDir), 0o700); err != nil {
		b.t.Fatal(err)
	}
	put := func(name string, text []byte, err error) {
		if err == nil {
			err = os.WriteFile(b.machine.Path(filepath.Join(planDir, name)), text, 0o700)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	program, err := os.ReadFile(nodejoin(b.t, "linux"))
	put("nodejoin", program, err)
	admin, err := os.ReadFile(b.cluster.Kubeconfig)
	put("admin.kubeconfig", admin, err)
	put("plan.join.hcl", []byte(plan), nil)
	return planDir + "/plan.join.hcl"
}

// runLocally runs a command of nodejoin on the machine.
func (b *linuxBed) runLocally(ctx context.Context, args ...string) (out string, code int) {
	b.t.Helper()
	out, err := b.machine.Run(ctx, append([]string{planDir + "/nodejoin"}, args...)...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out, exit.ExitCode()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return out, 0
}

// rebootItself applies a plan that reboots the machine, and waits until the machine is down.
func (b *linuxBed) rebootItself(ctx context.Context, plan string) {
	b.t.Helper()
	if _, err := b.machine.Run(ctx, "hostname", "another"); err != nil {
		b.t.Fatal(err)
	}
	out, code := b.runLocally(ctx, "apply", "--auto-approve", plan)
	if code != 6 || !strings.Contains(out, "this machine is rebooted now") || !strings.Contains(out, resumeService) {
		b.t.Fatalf("exit code %d:\n%s", code, out)
	}
	b.t.Logf("%s", out)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := b.machine.AwaitDown(ctx); err != nil {
		b.t.Fatal(err)
	}
}

func (b *linuxBed) boot(ctx context.Context) {
	b.t.Helper()
	if err := b.machine.Boot(ctx); err != nil {
		b.t.Fatalf("%v\n%s", err, b.machine.Console())
	}
}

// resumeService is the unit that finishes a plan after a boot, linuxResumeLog its log.
const resumeService = "nodejoin-resume"

const linuxResumeLog = "/var/log/" + resumeService + "/resume.log"

// awaitResume waits until the log of the unit holds a text.
func (b *linuxBed) awaitResume(ctx context.Context, text string) {
	b.t.Helper()
	b.awaitResumeLog(ctx, func(log string) bool { return strings.Contains(log, text) })
}

func (b *linuxBed) awaitResumeLog(ctx context.Context, holds func(log string) bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, resumeWait, fmt.Errorf("not done within %v", resumeWait))
	defer cancel()
	until(ctx, b.t, "the unit "+resumeService, func() error {
		log, err := os.ReadFile(b.machine.Path(linuxResumeLog))
		if err == nil && !holds(string(log)) {
			err = fmt.Errorf("its log says\n%s", tail(string(log)))
		}
		return err
	})
}

// wantResumed waits until the unit has finished its plan for the nth time, and checks that only its log is
// left.
func (b *linuxBed) wantResumed(ctx context.Context, n int) {
	b.t.Helper()
	b.awaitResumeLog(ctx, func(log string) bool {
		return strings.Count(log, "nodejoin apply ended with exit code 0") == n
	})
	until(ctx, b.t, "the end of the unit "+resumeService, func() error {
		out, err := b.machine.Run(ctx, "systemctl", "show", "--property=LoadState,ActiveState", resumeService)
		if err == nil && out != "LoadState=not-found\nActiveState=inactive\n" {
			err = errors.New(out)
		}
		return err
	})
	for _, path := range []string{"/etc/systemd/system/" + resumeService + ".service",
		"/etc/systemd/system/multi-user.target.wants/" + resumeService + ".service",
		"/var/lib/nodejoin/resume/resume.json"} {
		if _, err := os.Lstat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			b.t.Errorf("%s is still there: %v", path, err)
		}
	}
	log, _ := os.ReadFile(b.machine.Path(linuxResumeLog))
	b.t.Logf("%s", log)
}

package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// servicingWaits is a volatile key that exists while Windows waits for a reboot to finish an update.
	servicingWaits = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`
	resumeLog      = `C:\var\log\nodejoin-resume\resume.log`
	// resumeWait bounds the time from a boot to the end of the plan: a whole join.
	resumeWait = 5 * time.Minute
)

// TestLocalReboot: on a machine that is already waiting for a reboot, like a fresh one with updates,
// nodejoin.exe leaves a service, reboots the machine and exits. The service sets up what takes effect after a
// reboot only, reboots once more, joins the node and removes itself. A leave removes the rest.
func TestLocalReboot(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	b.withoutContainers(ctx)
	local := b.putLocalPlan("\n  host {\n    features = [\"Containers\"]\n    reboot   = \"auto\"\n  }\n")

	b.reg(ctx, "add", servicingWaits, "/f")

	out, code := b.runLocally(ctx, local, "apply", "--auto-approve", "--json")
	if code != 6 || !strings.Contains(out, "this machine is rebooted now") || !strings.Contains(out, "nodejoin-resume") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if r := readStream(t, strings.NewReader(onlyJSON(out)), func(streamEvent) {}); r.summary == nil ||
		slices.Contains(r.changed(), "feature_containers") {
		t.Fatalf("the changes before the reboot are wrong:\n%s", out)
	}
	if err := b.rebootAsked(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.rebootAsked(ctx); err != nil {
		t.Fatalf("the second reboot: %v\n%s", err, b.read(resumeLog))
	}
	b.awaitResumed(ctx)
	t.Logf("%s", b.read(resumeLog))
	b.wantJoined(ctx)
	b.awaitGone(ctx, "nodejoin-resume")

	if out, code := b.runLocally(ctx, local, "apply", "--auto-approve"); code != 0 ||
		!strings.Contains(out, "No changes") {
		t.Errorf("once more: exit code %d\n%s", code, out)
	}
	if out, code := b.runLocally(ctx, local[len(local)-1:], "history"); code != 0 || !strings.Contains(out, "resume") {
		t.Errorf("history: exit code %d\n%s", code, out)
	}
	if out, code := b.runLocally(ctx, local, "leave", "--auto-approve", "--target", nodeName); code != 0 {
		t.Fatalf("leave: exit code %d\n%s", code, out)
	}
	for _, path := range []string{`C:\ProgramData\nodejoin`, `C:\var\log\nodejoin-resume`} {
		if _, err := os.Stat(b.host.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the leave %s is still there: %v", path, err)
		}
	}
}

// registered reports whether the registry of the machine has a service. A service that is marked for deletion
// counts as gone.
func (b *bed) registered(ctx context.Context, service string) bool {
	b.t.Helper()
	out, err := b.host.Run(ctx, "reg.exe", "query", `HKLM\SYSTEM\CurrentControlSet\Services\`+service)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return err == nil && strings.Contains(out, "ImagePath") && !strings.Contains(out, "DeleteFlag")
}

// awaitResumed waits until the service has logged the result of its plan, and checks that it has finished.
func (b *bed) awaitResumed(ctx context.Context) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, resumeWait, fmt.Errorf("not done within %v", resumeWait))
	defer cancel()
	for {
		log, err := os.ReadFile(b.host.Path(resumeLog))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
		switch {
		case strings.Contains(string(log), "nodejoin apply ended with exit code 0"):
			return
		case strings.Contains(string(log), "ended: "):
			b.t.Fatalf("the plan is not finished:\n%s", log)
		}
		b.wait(ctx, "the plan is not finished: "+tail(string(log)))
	}
}

// awaitGone waits until a service is no longer registered.
func (b *bed) awaitGone(ctx context.Context, service string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, healWait, fmt.Errorf("not done within %v", healWait))
	defer cancel()
	for b.registered(ctx, service) {
		b.wait(ctx, "the service "+service+" is registered still")
	}
}

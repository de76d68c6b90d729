package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/mirror"
)

// TestLinuxNodeFromRegistry: distribution's registry, with TLS by an authority of its own and tokens, is the mirror
// near a machine. Who logs in writes into it, everybody reads. The machine trusts the authority by the plan and
// fetches its artifacts from the registry by the digests of the lock, so that the controller, which has them too,
// sends the agent and no artifact.
func TestLinuxNodeFromRegistry(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	ca := newRegistryCAFor(t, b.machine.Gateway()+":0") // a registry on loopback would be read without TLS
	addr := ca.forEverybody(ctx, t.TempDir())
	to := "oci://" + addr + "/nodes"
	pem, err := os.ReadFile(ca.file("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	args := writePlan(t, b.head(), strings.Replace(b.linuxHost(), "  labels = {",
		fmt.Sprintf("  mirror = %q\n  host { trusted_cas = [%q] }\n  labels = {", to, pem), 1))
	call := func(want int, args ...string) string {
		t.Helper()
		out, code := ca.run(ctx, args...)
		if code != want {
			t.Fatalf("%s: exit code %d, want %d\n%s", args, code, want, out)
		}
		return out
	}
	call(0, "lock", args[0])
	if out := call(1, "mirror", args[0], "--to", to); !strings.Contains(out, "docker login") {
		t.Errorf("a mirror of somebody who did not log in:\n%s", out)
	}
	ca.logIn(addr)
	call(2, "mirror", args[0], "--to", to, "--check")
	call(0, "mirror", args[0], "--to", to)
	call(0, "mirror", args[0], "--to", to, "--check")

	_, artifacts, err := mirror.Make(ctx, componentSet(t), "linux")
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, a := range artifacts {
		size += a.Size
	}
	_, port, _ := strings.Cut(addr, ":")
	bySSH, byRegistry := b.sent(ctx, "--dport", "22"), b.sent(ctx, "--sport", port)
	first := mustApply(ctx, t, args)
	ssh, registry := bySSH(), byRegistry()
	t.Logf("joined after %.1fs: %d bytes by SSH, %d bytes by the registry, of artifacts %d", first.took.Seconds(), ssh,
		registry, size)
	if ssh > 6<<20 || registry < size || registry > size+size/10 {
		t.Errorf("%d bytes by SSH, want the agent alone; %d bytes by the registry, want those of the artifacts once: %d",
			ssh, registry, size)
	}
	b.wantLinuxNode(ctx, "cgroupfs")
	wantNothing(ctx, t, args)
}

var counted = regexp.MustCompile(`-c \d+ (\d+)`)

// sent counts the bytes that this machine sends to the Linux one over TCP, by a port. The result is how many there
// were.
func (b *linuxBed) sent(ctx context.Context, port ...string) func() int64 {
	b.t.Helper()
	rule := append([]string{"OUTPUT", "-d", b.machine.IP() + "/32", "-p", "tcp", "-m", "tcp"}, port...)
	run := func(ctx context.Context, do string, more ...string) string {
		out, err := exec.CommandContext(ctx, "iptables", append(append([]string{do}, rule...), more...)...).CombinedOutput()
		if err != nil {
			b.t.Errorf("iptables %s %s: %v\n%s", do, rule, err, out)
		}
		return string(out)
	}
	run(ctx, "-A")
	b.t.Cleanup(func() { run(context.WithoutCancel(ctx), "-D") })
	return func() int64 {
		b.t.Helper()
		out, err := exec.CommandContext(ctx, "iptables", "-v", "-S", "OUTPUT").CombinedOutput()
		if err != nil {
			b.t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if m := counted.FindStringSubmatch(line); m != nil && strings.Contains(line, strings.Join(rule, " ")) {
				n, err := strconv.ParseInt(m[1], 10, 64)
				if err != nil {
					b.t.Fatal(err)
				}
				return n
			}
		}
		b.t.Fatalf("no rule %s:\n%s", rule, out)
		return 0
	}
}

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

// TestLinuxNodeFromRegistry: distribution's registries, with TLS by an authority of its own, are where a machine has
// its artifacts from. One wants a login (htpasswd) and is the mirror near the machine; the other gives everybody a
// token to read, and is in the url of one artifact. The machine trusts the authority by the plan, and fetches by the
// digests of the lock, so that the controller, which has the artifacts too, sends the agent and no artifact. The
// password is nowhere on the machine.
func TestLinuxNodeFromRegistry(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	ca := newRegistryCAFor(t, b.machine.Gateway()+":0") // a registry on loopback would be read without TLS
	private, public := ca.basic(ctx, t.TempDir()), ca.forEverybody(ctx, t.TempDir())
	pem, err := os.ReadFile(ca.file("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MIRROR_PASSWORD", registryPassword)
	node := strings.Replace(b.linuxHost(), "  labels = {",
		fmt.Sprintf("  mirror = \"oci://%s/nodes\"\n  host { trusted_cas = [%q] }\n  labels = {", private, pem), 1)
	args := writePlan(t, b.head(), node)
	call := func(want int, args ...string) string {
		t.Helper()
		out, code := ca.run(ctx, args...)
		if code != want {
			t.Fatalf("%s: exit code %d, want %d\n%s", args, code, want, out)
		}
		return out
	}
	call(0, "lock", args[0])
	if out := call(1, "mirror", args[0], "--to", "oci://"+private+"/nodes"); !strings.Contains(out, "docker login") {
		t.Errorf("a mirror of somebody who did not log in:\n%s", out)
	}
	for _, addr := range []string{private, public} {
		to := "oci://" + addr + "/nodes"
		ca.logIn(addr)
		call(2, "mirror", args[0], "--to", to, "--check")
		call(0, "mirror", args[0], "--to", to)
		call(0, "mirror", args[0], "--to", to, "--check")
	}

	_, artifacts, err := mirror.Make(ctx, componentSet(t), "linux")
	if err != nil {
		t.Fatal(err)
	}
	size, own := int64(0), ""
	for _, a := range artifacts {
		size += a.Size
		if a.Name == "cni_plugins" {
			own = strings.Replace(node, "  version = \"1.9.1\"\n", fmt.Sprintf("  url    = \"oci://%s/nodes:%s\"\n", public,
				a.File), 1)
		}
	}
	wanting := writePlan(t, b.head(), own)
	call(0, "lock", wanting[0])
	bySSH := b.sent(ctx, "--dport", "22")
	r := released(t).apply(ctx, t, wanting, nil)
	if said := fmt.Sprintf("%+v %+v %s", r.summary, r.events, r.stderr); r.code == 0 ||
		!strings.Contains(said, "wants a login, which a login block of the plan gives") {
		t.Errorf("a node that cannot log in at its mirror, exit code %d:\n%s", r.code, said)
	}
	args = writePlan(t, b.head(), own, fmt.Sprintf("login %q {\n  username = %q\n  password_env = "+
		"\"MIRROR_PASSWORD\"\n}\n", private, registryUser))
	call(0, "lock", args[0])
	var byRegistry []func() int64
	for _, addr := range []string{private, public} {
		_, port, _ := strings.Cut(addr, ":")
		byRegistry = append(byRegistry, b.sent(ctx, "--sport", port))
	}
	first := mustApply(ctx, t, args)
	ssh, registry, other := bySSH(), byRegistry[0](), byRegistry[1]()
	t.Logf("joined after %.1fs: %d bytes by SSH, %d and %d bytes by the registries, of artifacts %d",
		first.took.Seconds(), ssh, registry, other, size)
	if all := registry + other; ssh > 6<<20 || other == 0 || all < size || all > size+size/10 {
		t.Errorf("%d bytes by SSH, want the agent alone; %d and %d bytes by the registries, want those of the artifacts "+
			"once: %d", ssh, registry, other, size)
	}
	b.wantLinuxNode(ctx, "cgroupfs")
	wantNothing(ctx, t, args)
	// The expression is not the text that it finds, so that the search does not find itself.
	find := "[" + registryPassword[:1] + "]" + regexp.QuoteMeta(registryPassword[1:])
	out, err := b.machine.Run(ctx, "sh", "-c", "grep -rls '"+find+
		"' /var/lib/nodejoin /root/.nodejoin /etc /var/log /run /proc/[0-9]*/cmdline /proc/[0-9]*/environ; :")
	if err != nil || strings.HasPrefix(out, "/") || strings.Contains(out, "\n/") {
		t.Errorf("files with the password: %q, %v", out, err)
	}
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

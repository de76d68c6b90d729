package acceptance_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/machine"
)

// bakedSecret is in files of the plan that no image has.
const bakedSecret = "correct horse battery staple"

const bakedSteps = `
step "file" "of_all" {
  path    = "/etc/of-all"
  content = "of every machine\n"
}

step "file" "password" {
  path      = "/etc/password"
  content   = "` + bakedSecret + `\n"
  sensitive = true
}
`

// inImage matches steps that a first boot changes although the image has them.
var inImage = regexp.MustCompile(
	`\bok (containerd_files|containerd|kubernetes_node|cni_plugins|flannel_cni|runc|of_all) `)

// The SSH server of a baked machine, or of a copy. Its folder is in memory, so that no image has it.
const (
	sshFolder  = "/run/nodejoin-sshd"
	sshHostKey = "/etc/ssh/ssh_host_ed25519_key"
)

// another is the node of a copy, whose machine does not exist yet.
func (b *linuxBed) another(name string) *linuxBed {
	return &linuxBed{t: b.t, name: name, dir: b.t.TempDir(), cluster: b.cluster}
}

// bootCopy starts a copy of a machine that is down.
func (b *linuxBed) bootCopy(ctx context.Context, of *machine.Machine, network string) {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := of.CopyTo(ctx, dir); err != nil {
		b.t.Fatal(err)
	}
	b.machine = startMachine(ctx, b.t, machine.Options{Dir: dir, Name: b.name, Systemd: true, Network: network})
	t := b.t
	t.Cleanup(func() {
		if t.Failed() {
			b.report()
		}
	})
}

// bake makes an image of the machine, which is down afterwards. Its name keeps it from being one at first.
func (b *linuxBed) bake(ctx context.Context, args []string) traces {
	b.t.Helper()
	for _, script := range []string{
		"rm -f /etc/ssh/ssh_host_* && ssh-keygen -q -t ed25519 -N '' -f " + sshHostKey,
		"mkdir -p /var/log/journal && journalctl --flush",
		"systemd-cat echo this is $(hostname) at " + b.machine.IP(),
	} {
		if out, err := b.machine.Run(ctx, "sh", "-c", script); err != nil {
			b.t.Fatal(out, err)
		}
	}
	socket, err := (&net.ListenConfig{}).Listen(ctx, "unix", b.machine.Path("/var/log/socket")) // no text to search
	if err != nil {
		b.t.Fatal(err)
	}
	defer socket.Close()
	b.serveSSH(ctx, sshFolder, sshHostKey)
	of := b.traces(ctx)
	bake := append(append([]string{"bake", "--auto-approve"}, args...), b.name)
	out, said, code := released(b.t).outputs(ctx, b.t, bake...)
	if code != 1 || !strings.Contains(said, "the name of the node (/etc/hostname)") {
		b.t.Fatalf("with its name: exit code %d\n%s%s", code, out, said)
	}
	b.write("/etc/hostname", []byte("localhost\n"))
	out = released(b.t).must(ctx, b.t, bake...)
	if !strings.Contains(out, b.name+" is ready to be an image.") {
		b.t.Errorf("bake:\n%s", out)
	}
	b.t.Logf("bake:\n%s", tail(out))
	if _, err := b.machine.Run(ctx, "/usr/local/bin/ctr", "version"); err != nil {
		b.t.Errorf("containerd does not run: %v", err)
	}
	if err := b.machine.PowerOff(ctx); err != nil {
		b.t.Fatal(err)
	}
	of.wantNowhere(ctx, b.t, b.machine)
	return of[1:] // the copies have the secret by their own joins
}

// TestBakeLocally: nodejoin makes an image of the machine that it runs on. Apart from the plan, nothing of the machine
// is on its disk then, and no note about the run.
func TestBakeLocally(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBedOn(ctx, t, machine.Options{Name: "baked-lin", Systemd: true, Network: "10.89.9"},
		controlplane.Options{})
	plan := b.putLocalPlan("")
	if out, err := b.machine.Run(ctx, "sh", "-c",
		"rm -f /etc/ssh/ssh_host_* && ssh-keygen -q -t ed25519 -N '' -f "+sshHostKey); err != nil {
		t.Fatal(out, err)
	}
	of := b.traces(ctx)
	b.write("/etc/hostname", []byte("localhost\n"))
	const notes = "/root/.local/state/nodejoin/history"
	b.write(notes+"/plan/run.jsonl", []byte(b.name))
	out, code := b.runLocally(ctx, "bake", "--auto-approve", plan)
	if code != 1 || !strings.Contains(out, "notes about earlier runs") {
		t.Fatalf("beside notes of earlier runs: exit code %d\n%s", code, out)
	}
	if said, err := b.machine.Run(ctx, "rm", "-r", notes); err != nil {
		t.Fatal(said, err)
	}
	out, code = b.runLocally(ctx, "bake", "--auto-approve", plan)
	if code != 0 || !strings.Contains(out, b.name+" is ready to be an image.") ||
		!strings.Contains(out, "The plan, its values and what nodejoin has unpacked in its cache") {
		t.Fatalf("bake: exit code %d\n%s", code, out)
	}
	t.Logf("bake:\n%s", tail(out))
	if err := os.RemoveAll(b.machine.Path(planDir)); err != nil {
		t.Fatal(err)
	}
	if err := b.machine.PowerOff(ctx); err != nil {
		t.Fatal(err)
	}
	of.wantNowhere(ctx, t, b.machine)
}

// traces are texts that copies of a machine must not have.
type traces []string

// traces are the secret of the plan, and what makes the machine this one.
func (b *linuxBed) traces(ctx context.Context) traces {
	b.t.Helper()
	read := func(argv ...string) string {
		b.t.Helper()
		out, err := b.machine.Run(ctx, argv...)
		if err != nil || strings.TrimSpace(out) == "" {
			b.t.Fatalf("%v: %q, %v", argv, out, err)
		}
		return strings.TrimSpace(out)
	}
	private := strings.Split(read("cat", sshHostKey), "\n")
	all := traces{bakedSecret, b.name, b.machine.IP(), read("cat", "/etc/machine-id"),
		read("cat", "/sys/class/net/eth0/address"), strings.Fields(read("cat", sshHostKey+".pub"))[1],
		private[len(private)/2]}
	for _, text := range all {
		if len(text) < len("10.0.0.1") {
			b.t.Fatalf("%q is too short to be searched for", text)
		}
	}
	return all
}

// wantNowhere searches the bytes of all files of a machine that differ from this one's.
func (of traces) wantNowhere(ctx context.Context, t *testing.T, m *machine.Machine) {
	t.Helper()
	args := []string{"-roaF", m.Upper(), m.Lib()}
	for _, text := range of {
		args = append(args, "-e", text)
	}
	cmd := exec.CommandContext(ctx, "grep", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if len(out) > 0 || err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("of the baked machine is left (%v):\n%s", err, tail(string(out)))
	}
}

// wantDifferent: two copies of a machine have no key in common, and no id.
func wantDifferent(ctx context.Context, t *testing.T, one, two *machine.Machine) {
	t.Helper()
	for _, path := range []string{"/etc/machine-id", sshHostKey, "/var/lib/kubelet/pki/kubelet-client-current.pem",
		"/etc/kubernetes/flannel.token", "/etc/kubernetes/kube-proxy.token"} {
		first, err1 := one.Run(ctx, "cat", path)
		second, err2 := two.Run(ctx, "cat", path)
		if err1 != nil || err2 != nil || len(first) < 32 || first == second {
			t.Errorf("%s: the copies have %d and %d bytes, the same: %v; %v, %v", path, len(first), len(second),
				first == second, err1, err2)
		}
	}
}

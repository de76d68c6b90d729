package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodejoin/examples/acceptance/internal/machine"
	"nodejoin/examples/acceptance/internal/netproxy"
)

const (
	// gateTime is the round trip time to the first jump host.
	gateTime = 50 * time.Millisecond
	// gateTrips bounds the round trips to the first jump host of a run with nothing to do: three logins of up to nine
	// (steps/transport, TestJumpHosts), and what follows them.
	gateTrips = 3*9 + noopTrips + changeTrips
	// gatesOf is where sshd of the second jump host forwards for whom.
	gatesOf = `Match User forbidden
  AllowTcpForwarding no
Match User elsewhere
  PermitOpen 10.89.18.2:2222
`
)

// behindGates: the machine is behind two jump hosts with the distribution's OpenSSH, each with a user, key and host
// key of its own, and there is no other way to it. The first one is 50 ms away. An apply takes the agent and an
// artifact there, also where the second jump host ends the connection in the middle; a leave takes all away again.
// What a jump host refuses is refused with its name, its place and the reason.
func (b *sudoBed) behindGates(ctx context.Context) {
	b.t.Helper()
	one, two := b.newGate(ctx, "gate1", "10.89.19", ""), b.newGate(ctx, "gate2", "10.89.20", gatesOf)
	one.letIn(ctx, "ops")
	two.letIn(ctx, "inner", "forbidden", "elsewhere")
	if err := errors.Join(one.machine.Join(ctx, two.machine, 3), two.machine.Join(ctx, b.machine, 3)); err != nil {
		b.t.Fatal(err)
	}
	back, err := b.machine.Detach(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := back(); err != nil {
			b.t.Error(err)
		}
	}()
	proxy, err := netproxy.Start(one.machine.IP()+":22", gateTime)
	if err != nil {
		b.t.Fatal(err)
	}
	defer proxy.Close()
	first := fmt.Sprintf("ops@127.0.0.1:%d", proxy.Port())
	through := func(second string) string {
		return fmt.Sprintf("become {}\n    jump = [%q, %q]", first, second+"@"+two.machine.IP())
	}
	way := through("inner")
	b.keys = []string{filepath.Join(one.dir, "user"), filepath.Join(two.dir, "user"), filepath.Join(b.dir, "user")}
	b.digest = writeTools(b.t, filepath.Join(b.dir, "tools.tar.gz"), 32<<20)
	known := func(keyOf *linuxBed) { // for the second jump host
		b.t.Helper()
		text := fmt.Sprintf("[127.0.0.1]:%d %s%s %s%s %s", proxy.Port(), one.read("host.pub"), two.machine.IP(),
			keyOf.read("host.pub"), b.machine.IP(), b.read("host.pub"))
		if err := os.WriteFile(filepath.Join(b.dir, "known_hosts"), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	known(two)

	b.plan(way)
	ended, lost := false, ""
	r := apply(ctx, b.t, []string{b.dir}, func(e streamEvent, _ *os.Process) {
		switch {
		case e.Type == "step_progress" && e.Step == "tools" && e.Done > 1<<20 && !ended:
			ended = true
			two.run(ctx, "pkill", "-KILL", "-u", "inner")
		case e.State == "reconnecting":
			lost = e.Detail
		}
	})
	want := "jump host 2 of 2, inner@" + two.machine.IP() + ":22, ended the connection"
	if r.code != 0 || !ended || !strings.Contains(lost, want) {
		b.t.Errorf("the connection was ended: %v; %q, want %q: %s", ended, lost, want, r)
	}
	if have := r.changed(); !slices.Equal(have, []string{"config", "sleeper", "tools"}) &&
		!slices.Equal(have, []string{"tools", "config", "sleeper"}) {
		b.t.Errorf("changed %q", have)
	}
	before := proxy.Trips()
	b.want(0, way, "", []string{"apply", "--auto-approve", "--display", "plain"}, "No changes")
	trips := proxy.Trips() - before
	b.t.Logf("nothing to change behind two jump hosts: %d round trips, with three logins", trips)
	if trips > gateTrips {
		b.t.Errorf("a run with nothing to do took %d round trips, want at most %d", trips, gateTrips)
	}

	plan := []string{"plan", "--display", "plain"}
	b.want(4, through("forbidden"), "", plan, "the jump host does not forward", "jump host 2 of 2", "AllowTcpForwarding")
	b.want(4, through("elsewhere"), "", plan, "the jump host does not forward", "jump host 2 of 2", "PermitOpen")
	b.want(4, through("nobody-else"), "", plan, "the login was refused", "jump host 2 of 2", "as user nobody-else")
	known(one)
	b.want(4, way, "", plan, "jump host 2 of 2", "known_hosts:2", "compare the fingerprint")
	known(two)
	b.want(0, way, "", []string{"leave", "--auto-approve", "--target", "node.box", "--display", "plain"})
	two.run(ctx, "pkill", "-KILL", "sshd")
	b.want(4, way, "", plan, "no connection", "jump host 2 of 2", first+" cannot connect to it")
	b.keys = b.keys[2:]
}

// newGate is a machine with an SSH server whose sshd_config has more.
func (b *sudoBed) newGate(ctx context.Context, name, network, more string) *linuxBed {
	b.t.Helper()
	g := &linuxBed{t: b.t, dir: b.t.TempDir(), sshd: more}
	g.machine = startMachine(ctx, b.t, machine.Options{Dir: b.t.TempDir(), Name: name, Network: network})
	g.startSSHD(ctx)
	return g
}

// read returns a file of the bed's folder.
func (b *linuxBed) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

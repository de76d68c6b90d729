package transport

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"nodejoin/steps/event"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// gates are two of the distribution's SSH servers as jump hosts, each with a user, key and host key of its own.
type gates struct {
	one, two *sshd
	first    *sshtest.Proxy // in front of one
	config   SSHConfig      // as far as jump hosts need it
}

// noopTrips is how many round trips the start of the agent and a check take.
const noopTrips = 2

// farAway is half of a round trip of 50 ms.
const farAway = 25 * time.Millisecond

// startGates starts two jump hosts, the first with a delay on the way to it. The second one has more settings, and
// before stands before its user's key.
func startGates(t *testing.T, delay time.Duration, before string, settings ...string) *gates {
	t.Helper()
	g := &gates{one: startSSHD(t, "root", "", "AllowTcpForwarding yes"),
		two: startSSHD(t, "nobody", before, settings...)}
	g.first = sshtest.NewProxy(t, g.one.addr, delay)
	g.config = SSHConfig{ConfigFile: "none", Jump: []string{"root@" + g.first.Addr, "nobody@" + g.two.addr},
		Identity: []string{g.one.identity, g.two.identity}}
	g.know(t, g.two)
	return g
}

// know makes known_hosts, where the second jump host has the key of a server.
func (g *gates) know(t *testing.T, two *sshd) {
	t.Helper()
	g.config.KnownHosts = []string{writeText(t, filepath.Join(t.TempDir(), "known"),
		knownhosts.Line([]string{g.first.Addr}, g.one.host.PublicKey())+"\n"+
			knownhosts.Line([]string{g.two.addr}, two.host.PublicKey())+"\n")}
}

// to is the way to a machine behind the jump hosts.
func (g *gates) to(m *machine) SSHConfig {
	c := m.config(m.addr)
	c.Jump, c.KnownHosts = g.config.Jump, g.config.KnownHosts
	c.Identity = append(c.Identity, g.config.Identity...)
	return c
}

// testOpenSSHJumps: the agent is sent and works behind two OpenSSH servers, and an artifact arrives. A run with
// nothing to do costs the three logins and two round trips more. A jump host that dies or falls silent in
// the middle of a step is named.
func testOpenSSHJumps(t *testing.T) {
	g, m := startGates(t, farAway, ""), newMachine(t)
	c, req := g.to(m), directories(t.TempDir(), 3)
	conn := m.dial(t, c)
	if err := stage(t.Context(), conn, artifact(t, 8<<20), nil); err != nil {
		t.Fatal(err)
	}
	if reply, err := Do(t.Context(), conn, wire.Apply, req, nil); err != nil || len(reply.Changed) != 3 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	logins := g.leastTrips(func() {
		if err := TrySSH(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	})
	trips := g.leastTrips(func() {
		conn := m.dial(t, c)
		if check, err := Do(t.Context(), conn, wire.Check, req, nil); err != nil || check.Mutations != 0 {
			t.Fatalf("%+v, %v", check, err)
		}
		_ = conn.Close()
	})
	t.Logf("three logins %d round trips, with the start of the agent and a check %d", logins, trips)
	if trips > logins+noopTrips+2 { // it counts one more where an answer comes in two pieces
		t.Errorf("a check took %d round trips after the logins, want %d", trips-logins, noopTrips)
	}
	g.likeUsers(t, m)
	silent := c
	silent.KeepAlive = 500 * time.Millisecond
	_, err := Do(t.Context(), m.dial(t, silent), wire.Apply, slowStep(t.TempDir()), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			g.first.Stalled.Store(true)
		}
	})
	if want := "jump host 1 of 2, " + c.Jump[0] + ", does not answer"; !errors.Is(err, ErrDropped) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want a lost connection: %s", err, want)
	}
	g.first.Stalled.Store(false)
	for i := 1; i >= 0; i-- { // the second jump host dies first, in a chain that then has one
		c.Jump = g.config.Jump[:i+1]
		g.diesIn(t, i, func(dies func(event.Event)) error {
			_, err := Do(t.Context(), m.dial(t, c), wire.Apply, slowStep(t.TempDir()), dies)
			return err
		})
		ce := tryLogin(t, c)
		wantError(t, ce, ReasonUnreachable, fmt.Sprintf("jump host %d of %[1]d on the way to admin@", i+1))
		if ce.Host != c.Jump[i] {
			t.Errorf("the error is about %s, want %s", ce.Host, c.Jump[i])
		}
	}
}

// leastTrips is how many round trips f takes through the first jump host. It is the least of three times, as a busy
// server answers in pieces.
func (g *gates) leastTrips(f func()) int64 {
	least := int64(math.MaxInt64)
	for range 3 {
		before := g.first.Trips.Load()
		f()
		least = min(least, g.first.Trips.Load()-before)
	}
	return least
}

// likeUsers logs in by names of ~/.ssh/config alone, where each server has its own key.
func (g *gates) likeUsers(t *testing.T, m *machine) {
	t.Helper()
	text, err := os.ReadFile(g.config.KnownHosts[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := "UserKnownHostsFile " + writeText(t, filepath.Join(dir, "known_hosts"),
		string(text)+knownhosts.Line([]string{m.addr}, m.host.PublicKey())+"\n") + "\n"
	for _, s := range []struct{ name, more, addr, user, identity string }{
		{"far", "  ProxyJump gate,inner\n", m.addr, "admin", m.identity},
		{"gate", "", g.first.Addr, g.one.user, g.one.identity}, {"inner", "", g.two.addr, g.two.user, g.two.identity},
	} {
		host, port, _ := net.SplitHostPort(s.addr)
		config += fmt.Sprintf("Host %s\n  HostName %s\n  Port %s\n  User %s\n  IdentityFile %s\n%s", s.name, host, port,
			s.user, s.identity, s.more)
	}
	before := g.first.Trips.Load()
	if err := TrySSH(t.Context(), SSHConfig{Target: Target{OS: "linux"}, Host: "far",
		ConfigFile: writeText(t, filepath.Join(dir, "config"), config)}); err != nil {
		t.Errorf("by ProxyJump: %v\n%s", err, config)
	}
	t.Logf("three logins, each with one key: %d round trips", g.first.Trips.Load()-before)
}

// diesIn has jump host i, the last one, die in the first step of a run, and checks that the run's error names it.
func (g *gates) diesIn(t *testing.T, i int, run func(dies func(event.Event)) error) {
	t.Helper()
	err := run(func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			[]*sshd{g.one, g.two}[i].kill()
		}
	})
	want := fmt.Sprintf("jump host %d of %[1]d, %s, ended the connection", i+1, g.config.Jump[i])
	if !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want a lost connection: %s", err, want)
	}
}

// testOpenSSHJumpsFail: what an OpenSSH server on the way refuses is one error that names it, its place and the
// remedy.
func testOpenSSHJumpsFail(t *testing.T) {
	const first, second = "jump host 1 of 2 on the way to admin@", "jump host 2 of 2 on the way to admin@"
	for _, tt := range []struct {
		name     string
		before   string // the key of the second jump host's user
		settings string // of its sshd_config
		change   func(t *testing.T, g *gates, m *machine)
		reason   Reason
		at       int // 2 = the machine
		says     []string
	}{
		{"wrong key at hop 2", "", "", func(t *testing.T, g *gates, _ *machine) { g.know(t, g.one) }, ReasonHostKey, 1,
			[]string{second, "known:2", "compare the fingerprint"}},
		{"unknown key at hop 1", "", "", func(t *testing.T, g *gates, _ *machine) {
			g.config.KnownHosts = []string{filepath.Join(t.TempDir(), "none")}
		}, ReasonUnknownHost, 0, []string{first, "jump_host_keys = { \"root@"}},
		{"hop 2 is another user's", "", "AllowUsers root", nil, ReasonAuth, 1, []string{second, "as user nobody"}},
		{"hop 2 does not forward", "", "AllowTcpForwarding no", nil, ReasonForward, 1,
			[]string{second, "does not forward", "AllowTcpForwarding"}},
		{"hop 2 forwards remotely only", "", "AllowTcpForwarding remote", nil, ReasonForward, 1,
			[]string{second, "does not forward"}},
		{"hop 2 has no forwarding at all", "", "DisableForwarding yes", nil, ReasonForward, 1,
			[]string{second, "does not forward", "DisableForwarding"}},
		{"hop 2 opens other ports", "", "PermitOpen 127.0.0.1:1", nil, ReasonForward, 1,
			[]string{second, "does not forward", "PermitOpen"}},
		{"the key at hop 2 does not forward", "restrict ", "", nil, ReasonForward, 1,
			[]string{second, "does not forward", "authorized_keys"}},
		{"the key at hop 2 opens other ports", `permitopen="127.0.0.1:1" `, "", nil, ReasonForward, 1,
			[]string{second, "does not forward", "authorized_keys"}},
		{"the machine is down", "", "", func(t *testing.T, _ *gates, m *machine) { m.addr = closed(t) },
			ReasonUnreachable, 2, []string{"behind nobody@", "cannot connect to it", "check the address"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, m := startGates(t, 0, tt.before, tt.settings), newMachine(t)
			if tt.change != nil {
				tt.change(t, g, m)
			}
			ce := tryLogin(t, g.to(m))
			wantError(t, ce, tt.reason, tt.says...)
			if at := append(g.config.Jump, "admin@"+m.addr)[tt.at]; ce.Host != at || ce.Remedy == "" {
				t.Errorf("the error is about %s, want %s; remedy %q", ce.Host, at, ce.Remedy)
			}
		})
	}
}

// testWinRMOpenSSHJumps: the agent is carried in over WinRM and works behind two OpenSSH servers, and an artifact
// arrives. The jump host that dies in the middle of a step is named.
func testWinRMOpenSSHJumps(t *testing.T) {
	g, m := startGates(t, farAway, ""), newWinRM(t)
	c := m.config(m.Addr)
	c.Through = &g.config
	conn := m.dial(t, c)
	req := directories(filepath.Join(m.drive, "made"), 3)
	src := artifact(t, 1<<20)
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	staged, err := os.ReadFile(filepath.Join(m.drive, "data", "blobs", src.SHA256))
	if want, _ := os.ReadFile(src.File); err != nil || string(staged) != string(want) {
		t.Fatalf("staged %d bytes, want %d: %v", len(staged), len(want), err)
	}
	if reply, err := Do(t.Context(), conn, wire.Apply, req, nil); err != nil || len(reply.Changed) != 3 {
		t.Fatalf("%+v, %v", reply, err)
	}
	g.diesIn(t, 1, func(dies func(event.Event)) error {
		_, err := Do(t.Context(), conn, wire.Apply, slowStep(t.TempDir()), dies)
		return err
	})
}

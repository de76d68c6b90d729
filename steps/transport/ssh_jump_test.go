package transport

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"nodejoin/steps/transport/wire"
)

// chain is a machine behind two jump hosts; one key opens all three.
type chain struct {
	one, two, m *machine
	config      SSHConfig
}

// newChain starts three servers; the plan pins the keys of all of them. changes[i] changes jump host i before it
// starts.
func newChain(t *testing.T, changes ...func(*machine)) *chain {
	t.Helper()
	key := ed25519Key(t)
	opened := func(m *machine) { m.user = newSigner(t, key) }
	changes = append(changes, opened, opened)
	c := &chain{one: newMachine(t, opened, changes[0]), two: newMachine(t, opened, changes[1]), m: newMachine(t, opened)}
	c.config = c.m.config(c.m.addr)
	c.config.Identity = []string{writeKey(t, filepath.Join(t.TempDir(), "id"), key, "")}
	c.config.KnownHosts = []string{filepath.Join(t.TempDir(), "none")}
	c.config.Jump = []string{"u@" + c.one.addr, "ssh://v@" + c.two.addr}
	c.config.JumpKeys = map[string]string{
		c.config.Jump[0]: fingerprintOf(c.one), c.config.Jump[1]: authorized(c.two.host),
	}
	return c
}

func fingerprintOf(m *machine) string { return ssh.FingerprintSHA256(m.host.PublicKey()) }

// known is a known_hosts file with the keys of machines.
func known(t *testing.T, machines ...*machine) []string {
	t.Helper()
	var lines []string
	for _, m := range machines {
		lines = append(lines, knownhosts.Line([]string{m.addr}, m.host.PublicKey()))
	}
	return []string{writeText(t, filepath.Join(t.TempDir(), "known"), strings.Join(lines, "\n")+"\n")}
}

// closed is an address where nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

// TestJumpHosts: the agent works behind two jump hosts, whose keys come from known_hosts files or the plan.
func TestJumpHosts(t *testing.T) {
	t.Run("OpenSSH", testOpenSSHJumps)
	c := newChain(t)
	c.m.place(t)
	pinned := c.config
	files := c.config
	files.JumpKeys, files.KnownHosts = nil, known(t, c.one, c.two)
	both := c.config
	both.JumpKeys, both.KnownHosts = map[string]string{both.Jump[1]: fingerprintOf(c.two)}, known(t, c.one)
	for i, config := range []SSHConfig{pinned, files, both} {
		conn := c.m.dial(t, config)
		if _, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil); err != nil {
			t.Fatal(err)
		}
		n := int64(i + 1)
		if c.one.forwards.Load() != n || c.two.forwards.Load() != n || c.m.forwards.Load() != 0 {
			t.Errorf("forwards %d, %d and %d, want %d, %d and 0", c.one.forwards.Load(), c.two.forwards.Load(),
				c.m.forwards.Load(), n, n)
		}
	}
}

// TestJumpHostsFail: any failure on the route is one error that names the server, its position and the remedy. No
// server behind it is contacted.
func TestJumpHostsFail(t *testing.T) {
	t.Run("OpenSSH", testOpenSSHJumpsFail)
	const first, second = "jump host 1 of 2 on the way to admin@", "jump host 2 of 2 on the way to admin@"
	same := func(*machine) {}
	other := newSigner(t, ed25519Key(t))
	pin, wrong := authorized(other), ssh.FingerprintSHA256(other.PublicKey())
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, c *chain)
		hops   []func(*machine) // changes of the jump hosts
		reason Reason
		at     func(c *chain) string // the server that the error is about
		says   []string
		passed [2]int64 // connections that the jump hosts were asked to forward
	}{
		{"wrong key at hop 1", func(_ *testing.T, c *chain) { c.config.JumpKeys[c.config.Jump[0]] = pin }, nil,
			ReasonHostKey, func(c *chain) string { return "u@" + c.one.addr },
			[]string{first, "but the plan's jump_host_keys", wrong, "compare the fingerprint"}, [2]int64{}},
		{"wrong key at hop 2", func(_ *testing.T, c *chain) { c.config.JumpKeys[c.config.Jump[1]] = pin }, nil,
			ReasonHostKey, func(c *chain) string { return "v@" + c.two.addr },
			[]string{second, "but the plan's jump_host_keys", wrong, "compare the fingerprint"}, [2]int64{1, 0}},
		{"wrong key at the target", func(_ *testing.T, c *chain) { c.config.HostKey = pin }, nil, ReasonHostKey,
			func(c *chain) string { return "admin@" + c.m.addr },
			[]string{"behind v@", "but the plan's host_key has " + wrong}, [2]int64{1, 1}},
		{"changed key in known_hosts", func(t *testing.T, c *chain) {
			c.config.JumpKeys = nil
			file := c.config.KnownHosts[0]
			writeText(t, file, knownhosts.Line([]string{c.one.addr}, c.two.host.PublicKey())+"\n")
		}, nil, ReasonHostKey, func(c *chain) string { return "u@" + c.one.addr }, []string{first, "none:1"}, [2]int64{}},
		{"unknown key at hop 1", func(_ *testing.T, c *chain) {
			delete(c.config.JumpKeys, c.config.Jump[0])
		}, nil, ReasonUnknownHost,
			func(c *chain) string { return "u@" + c.one.addr }, []string{first, "jump_host_keys = { \"u@"}, [2]int64{}},
		{"the target's pin does not count for a jump host", func(_ *testing.T, c *chain) {
			c.config.JumpKeys = nil
			c.config.HostKey = fingerprintOf(c.one)
		}, nil, ReasonUnknownHost, func(c *chain) string { return "u@" + c.one.addr }, []string{first}, [2]int64{}},
		{"hop 1 is down", func(t *testing.T, c *chain) {
			c.one.addr = closed(t)
			c.config.Jump[0] = "u@" + c.one.addr
		}, nil, ReasonUnreachable,
			func(c *chain) string { return "u@" + c.one.addr }, []string{first, "refused", "check the address"}, [2]int64{}},
		{"hop 2 is down", func(t *testing.T, c *chain) {
			c.two.addr = closed(t)
			c.config.Jump[1] = "v@" + c.two.addr
		}, nil, ReasonUnreachable,
			func(c *chain) string { return "v@" + c.two.addr },
			[]string{second, "cannot connect to it", "check the address"}, [2]int64{1, 0}},
		{"the target is down", func(t *testing.T, c *chain) {
			c.m.addr = closed(t)
			c.config.Port = c.m.config(c.m.addr).Port
		}, nil, ReasonUnreachable,
			func(c *chain) string { return "admin@" + c.m.addr },
			[]string{"behind v@", "cannot connect to it", "check the address"}, [2]int64{1, 1}},
		{"hop 1 does not forward", nil, []func(*machine){func(m *machine) { m.LocalPortForwardingCallback = nil }},
			ReasonForward, func(c *chain) string { return "u@" + c.one.addr },
			[]string{first, "does not forward", "refuses to connect to 127.0.0.1:", "AllowTcpForwarding"}, [2]int64{}},
		{"hop 2 does not forward", nil, []func(*machine){same, func(m *machine) {
			m.LocalPortForwardingCallback = func(gssh.Context, string, uint32) bool { return false }
		}}, ReasonForward, func(c *chain) string { return "v@" + c.two.addr },
			[]string{second, "does not forward", "AllowTcpForwarding"}, [2]int64{1, 0}},
		{"hop 2 knows no forwarding", nil, []func(*machine){same, func(m *machine) {
			delete(m.ChannelHandlers, "direct-tcpip")
		}}, ReasonForward, func(c *chain) string { return "v@" + c.two.addr }, []string{second, "does not forward"},
			[2]int64{1, 0}},
		{"hop 2 refuses the login", nil, []func(*machine){same, func(m *machine) {
			m.PublicKeyHandler = func(gssh.Context, gssh.PublicKey) bool { return false }
		}}, ReasonAuth, func(c *chain) string { return "v@" + c.two.addr }, []string{second, "as user v"}, [2]int64{1, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t, tt.hops...)
			if tt.change != nil {
				tt.change(t, c)
			}
			ce := tryLogin(t, c.config)
			wantError(t, ce, tt.reason, tt.says...)
			if at := tt.at(c); ce.Host != at {
				t.Errorf("the error is about %s, want %s", ce.Host, at)
			}
			if ce.Remedy == "" {
				t.Errorf("no remedy: %v", ce)
			}
			if passed := [2]int64{c.one.forwards.Load(), c.two.forwards.Load()}; passed != tt.passed {
				t.Errorf("forwarded %v, want %v", passed, tt.passed)
			}
		})
	}
}

// TestProxyJumpKey: a jump host of ~/.ssh/config can be pinned only if the plan names it; the error says so.
func TestProxyJumpKey(t *testing.T) {
	c := newChain(t)
	host, port, _ := net.SplitHostPort(c.m.addr)
	c.config.Host, c.config.Port = "far", 0
	c.config.ConfigFile = writeText(t, filepath.Join(t.TempDir(), "config"), fmt.Sprintf(
		"Host far\n  HostName %s\n  Port %s\n  ProxyJump u@%s,v@%s\n", host, port, c.one.addr, c.two.addr))
	c.config.Jump, c.config.JumpKeys = nil, nil
	wantError(t, tryLogin(t, c.config), ReasonUnknownHost,
		fmt.Sprintf(`set jump = ["u@%s", "v@%s"] and jump_host_keys = { "u@%[1]s" = %[3]q }`, c.one.addr, c.two.addr,
			fingerprintOf(c.one)))
}

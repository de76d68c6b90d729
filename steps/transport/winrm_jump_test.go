package transport

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// winrmChain is a machine with WinRM behind the two jump hosts of a chain.
func winrmChain(t *testing.T, changes ...func(*machine)) (*chain, *winrmMachine, WinRMConfig) {
	t.Helper()
	jumps, m := newChain(t, changes...), newWinRM(t)
	c := m.config(m.Addr)
	c.Through = jumps.through()
	return jumps, m, c
}

// through are the jump hosts, and how to log in there.
func (c *chain) through() *SSHConfig {
	return &SSHConfig{ConfigFile: "none", Jump: c.config.Jump, JumpKeys: c.config.JumpKeys,
		Identity: c.config.Identity, KnownHosts: c.config.KnownHosts}
}

// TestWinRMJumpHosts: the agent is carried in and works behind one jump host and behind two. The machine is connected
// to from the last one only.
func TestWinRMJumpHosts(t *testing.T) {
	t.Run("OpenSSH", testWinRMOpenSSHJumps)
	jumps, m, two := winrmChain(t)
	one := two
	through := *two.Through
	through.Jump = through.Jump[:1]
	one.Through = &through
	for name, tt := range map[string]struct {
		config WinRMConfig
		last   *machine
	}{"one": {one, jumps.one}, "two": {two, jumps.two}} {
		t.Run(name, func(t *testing.T) {
			before := tt.last.forwards.Load()
			conn := m.dial(t, tt.config)
			if _, err := Do(t.Context(), conn, wire.Apply, directories(filepath.Join(m.drive, name), 3), nil); err != nil {
				t.Fatal(err)
			}
			if err := stage(t.Context(), conn, artifact(t, 1<<20), nil); err != nil {
				t.Fatal(err)
			}
			if n := tt.last.forwards.Load() - before; n < 2 { // the lanes of the client
				t.Errorf("the last jump host forwarded %d connections, want 2", n)
			}
			if have := conn.Address(host.Facts{}); have != "" {
				t.Errorf("address %s, want none: 127.0.0.1 is not the machine's own", have)
			}
			if err := conn.Close(); err != nil || m.Shells() != 0 {
				t.Errorf("%v, %d shells are left", err, m.Shells())
			}
		})
	}
}

// TestWinRMJumpHostsFail: any failure on the route is one error that names the server, its position and the remedy.
func TestWinRMJumpHostsFail(t *testing.T) {
	const second = "jump host 2 of 2 on the way to Administrator@"
	other := newSigner(t, ed25519Key(t))
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, jumps *chain, c *WinRMConfig)
		hop    func(*machine) // change of the second jump host
		reason Reason
		at     string // whose error it is
		says   []string
	}{
		{"wrong key at hop 2", func(_ *testing.T, jumps *chain, c *WinRMConfig) {
			c.Through.JumpKeys[jumps.config.Jump[1]] = authorized(other)
		}, nil, ReasonHostKey, "v@", []string{second, "but the plan's jump_host_keys"}},
		{"unknown key at hop 1", func(t *testing.T, _ *chain, c *WinRMConfig) {
			c.Through.JumpKeys = map[string]string{}
		}, nil, ReasonUnknownHost, "u@", []string{"jump host 1 of 2", "jump_host_keys = {"}},
		{"hop 2 does not forward", nil, func(m *machine) { m.LocalPortForwardingCallback = nil }, ReasonForward, "v@",
			[]string{second, "does not forward", "AllowTcpForwarding"}},
		{"the machine is down", func(t *testing.T, _ *chain, c *WinRMConfig) {
			_, port, _ := net.SplitHostPort(closed(t))
			c.Port, _ = strconv.Atoi(port)
		}, nil, ReasonUnreachable, "Administrator@", []string{"behind v@", "cannot connect to it", "WinRM listens"}},
		{"wrong certificate", func(_ *testing.T, _ *chain, c *WinRMConfig) {
			c.CertificateSHA256 = strings.Repeat("0", 64)
		}, nil, ReasonHostKey, "Administrator@", []string{"behind v@", "not the pinned one"}},
		{"no key", func(t *testing.T, _ *chain, c *WinRMConfig) {
			c.Through.Identity = []string{filepath.Join(t.TempDir(), "none")}
		}, nil, ReasonKey, "u@", []string{"jump host 1 of 2", "no such file"}},
		{"not a jump host", func(_ *testing.T, _ *chain, c *WinRMConfig) { c.Through.Jump = []string{"u@gate:x"} }, nil,
			ReasonKey, "127.0.0.1", []string{"port"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var changes []func(*machine)
			if tt.hop != nil {
				changes = []func(*machine){func(*machine) {}, tt.hop}
			}
			jumps, _, c := winrmChain(t, changes...)
			if tt.change != nil {
				tt.change(t, jumps, &c)
			}
			conn, err := DialWinRM(t.Context(), c, selfAgent)
			if err == nil {
				_ = conn.Close()
			}
			var ce *ConnectError
			if !errors.As(err, &ce) {
				t.Fatalf("%v, want a ConnectError", err)
			}
			wantError(t, ce, tt.reason, tt.says...)
			if !strings.HasPrefix(ce.Host, tt.at) || ce.Remedy == "" {
				t.Errorf("the error is about %s, want %s; remedy %q", ce.Host, tt.at, ce.Remedy)
			}
		})
	}
}

// TestWinRMJumpHostCut: a lost connection to a jump host is ErrDropped, and the next connection works.
func TestWinRMJumpHostCut(t *testing.T) {
	jumps, m, c := winrmChain(t)
	m.place(t)
	p := sshtest.NewProxy(t, jumps.one.addr, 0)
	c.Through.Jump = []string{"u@" + p.Addr}
	c.Through.JumpKeys = map[string]string{c.Through.Jump[0]: fingerprintOf(jumps.one)}
	req := directories(filepath.Join(m.drive, "made"), 3)
	conn := m.dial(t, c)
	if _, err := Do(t.Context(), conn, wire.Check, req, nil); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if _, err := Do(t.Context(), conn, wire.Apply, req, nil); !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	_ = conn.Close()
	if reply, err := Do(t.Context(), m.dial(t, c), wire.Apply, req, nil); err != nil || len(reply.Changed) != 3 {
		t.Fatalf("%+v, %v", reply, err)
	}
}

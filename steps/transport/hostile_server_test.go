package transport

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"

	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

// speaks is a server that sends a text to each client, and nothing else.
func speaks(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestHostileServers: whatever an SSH server or a jump host sends, the attempt ends in time with a readable error that
// cannot move a cursor or forge a line.
func TestHostileServers(t *testing.T) {
	const escape = "\x1b]0;x\a\u009b2J\u202e\r\nprod-db: ok"
	long := strings.Repeat(escape, 10_000)
	answer := func(kind string, do func(c ssh.NewChannel)) func(*machine) {
		return func(m *machine) {
			m.ChannelHandlers[kind] = func(_ *gssh.Server, _ *ssh.ServerConn, c ssh.NewChannel, _ gssh.Context) {
				do(c)
			}
		}
	}
	refuses := func(reason ssh.RejectionReason, text string) func(*machine) {
		return answer("direct-tcpip", func(c ssh.NewChannel) { _ = c.Reject(reason, text) })
	}
	session := func(do func(c ssh.Channel)) func(*machine) {
		return answer("session", func(n ssh.NewChannel) {
			c, requests, err := n.Accept()
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			do(c)
			_ = c.Close()
		})
	}
	jump := func(change func(*machine)) func(*testing.T) SSHConfig {
		return func(t *testing.T) SSHConfig {
			t.Helper()
			return newChain(t, change).config
		}
	}
	target := func(change func(*machine)) func(*testing.T) SSHConfig {
		return func(t *testing.T) SSHConfig {
			t.Helper()
			m := newMachine(t, change)
			return m.config(m.addr)
		}
	}
	raw := func(text string) func(*testing.T) SSHConfig {
		return func(t *testing.T) SSHConfig {
			t.Helper()
			return newMachine(t).config(speaks(t, text))
		}
	}
	for name, config := range map[string]func(*testing.T) SSHConfig{
		"a jump host forbids with escapes":    jump(refuses(ssh.Prohibited, escape)),
		"a jump host forbids at length":       jump(refuses(ssh.Prohibited, long)),
		"a jump host fails with escapes":      jump(refuses(ssh.ConnectionFailed, escape)),
		"a jump host fails at length":         jump(refuses(ssh.ConnectionFailed, long)),
		"a jump host gives an unknown reason": jump(refuses(4711, long)),
		"a jump host forwards to a talker": jump(answer("direct-tcpip", func(n ssh.NewChannel) {
			if c, _, err := n.Accept(); err == nil {
				_, _ = io.WriteString(c, long)
			}
		})),
		"another version": raw("SSH-1.5-" + escape + "\r\n"), "an escape for a version": raw("SSH-2.0-\x1b[2J\r\n"),
		"lines without a version": raw(long), "a version without an end": raw("SSH-2.0-" + strings.Repeat("x", 1<<20)),
		"a packet of 4 GiB": raw("SSH-2.0-x\r\n\xff\xff\xff\xff\x04\x14"), "silence": raw(""),
		"no sessions": target(answer("session", func(c ssh.NewChannel) {
			_ = c.Reject(ssh.ResourceShortage, long)
		})),
		"a long standard error": target(session(func(c ssh.Channel) { _, _ = io.WriteString(c.Stderr(), long) })),
		"a long signal": target(session(func(c ssh.Channel) {
			_, _ = c.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal string
				Core   bool
				Text   string
				Lang   string
			}{long, false, long, long}))
		})),
		"a refusal of sudo": target(func(m *machine) {
			m.Handler = func(s gssh.Session) {
				_, _ = io.WriteString(s, `{"jsonrpc":"2.0","method":"refused","params":{"why":"denied","said":"`+
					strings.Repeat(`\u001b[2J\nprod-db: ok`, 2000)+`"}}`+"\n")
			}
		}),
		"a refusal of sudo for no known reason": target(func(m *machine) {
			m.Handler = func(s gssh.Session) {
				_, _ = io.WriteString(s, `{"jsonrpc":"2.0","method":"refused","params":{"why":"\u001b[2J"}}`+"\n")
			}
		}),
		"a refusal of another type": target(func(m *machine) {
			m.Handler = func(s gssh.Session) {
				_, _ = io.WriteString(s, `{"jsonrpc":"2.0","method":"refused","params":[{"why":"\u001b[2J"}]}`+"\n")
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			c.Become, c.Timeout = &Become{Method: "sudo"}, 2*time.Second
			c.Bounds = func(_ string, b wire.Bound) wire.Bound {
				b.Within = 2 * time.Second
				return b
			}
			began := time.Now()
			conn, err := DialSSH(t.Context(), c, selfAgent)
			if err == nil {
				_, err = Do(t.Context(), conn, wire.Check, directories(filepath.Join(t.TempDir(), "made"), 1), nil)
				_ = conn.Close()
			}
			ce := &ConnectError{Summary: "lost"}
			if !errors.As(err, &ce) && !errors.Is(err, ErrDropped) {
				t.Fatalf("%.300v is neither a ConnectError nor ErrDropped", err)
			}
			for _, text := range []string{err.Error(), ce.Host, ce.Summary, ce.Detail, ce.Remedy} {
				if hosttext.Clean(text) != text || len(text) > 20<<10 {
					t.Errorf("%d bytes: %.300q", len(text), text)
				}
			}
			if ce.Summary == "" || strings.Contains(ce.Summary, "prod-db") || strings.Contains(ce.Detail, "\nprod-db") {
				t.Errorf("a line is forged: %.300q, %.300q", ce.Summary, ce.Detail)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nodejoin/steps/transport/winrmtest"
	"nodejoin/steps/transport/wire"
)

// tap is a proxy that notes what goes through it.
type tap struct {
	addr string
	mu   sync.Mutex
	seen strings.Builder
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.Write(b)
}

// newTap starts a tap before addr; change changes what the server sends, nil = nothing.
func newTap(t *testing.T, addr string, change func([]byte)) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{addr: l.Addr().String()}
	var work sync.WaitGroup
	ctx, over := context.WithCancel(context.Background())
	t.Cleanup(func() {
		over()
		_ = l.Close()
		work.Wait()
	})
	pass := func(to io.WriteCloser, from io.Reader, change func([]byte)) {
		defer func() { _ = to.Close() }()
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			_, _ = p.Write(b[:n])
			if change != nil {
				change(b[:n])
			}
			if _, werr := to.Write(b[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				_ = from.Close()
				continue
			}
			stop := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
			work.Go(func() { pass(to, from, nil) })
			work.Go(func() {
				pass(from, to, change)
				stop()
			})
		}
	})
	return p
}

// newHTTP starts a machine whose WinRM has no TLS.
func newHTTP(t *testing.T) *winrmMachine {
	m := &winrmMachine{home: t.TempDir(), drive: t.TempDir()}
	m.Server = winrmtest.NewHTTP(t, "Administrator", winrmPassword, winrmtest.Cmd(m.home, m.drive))
	t.Setenv("TEST_WINRM", winrmPassword)
	m.place(t)
	return m
}

// TestWinRMSealed: over HTTP the agent works, and nothing of what is asked and answered can be read on the way, or
// changed.
func TestWinRMSealed(t *testing.T) {
	m := newHTTP(t)
	p := newTap(t, m.Addr, nil)
	c := m.config(p.addr)
	c.HTTP = true
	wantSealed(t, m, p, c)
}

// wantSealed makes requests through a tap, which can read nothing of them.
func wantSealed(t *testing.T, m *winrmMachine, p *tap, c WinRMConfig) {
	t.Helper()
	conn := m.dial(t, c)
	req := directories(filepath.Join(m.drive, "made"), 30)
	reply, err := Do(t.Context(), conn, wire.Apply, req, nil)
	if err != nil || len(reply.Changed) != 30 {
		t.Fatalf("%+v, %v", reply, err)
	}
	src := artifact(t, 1<<20)
	conn.(*winrmConn).unreached = true
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	m.wantStaged(t, src)
	if err := conn.Close(); err != nil || m.Shells() != 0 {
		t.Errorf("%v, %d shells are left", err, m.Shells())
	}
	seen := p.seen.String()
	for _, word := range []string{"Envelope", "nodejoin-agent", "ShellId", "stdin", winrmPassword} {
		if strings.Contains(seen, word) {
			t.Errorf("%q can be read on the way", word)
		}
	}
	if !strings.Contains(seen, "multipart/encrypted") || len(seen) < 1<<20 {
		t.Errorf("the tap has seen %d bytes only", len(seen))
	}
}

// TestWinRMSealedRefused: no login, no message and no answer that is not sealed by it counts.
func TestWinRMSealedRefused(t *testing.T) {
	m, secure := newHTTP(t), newWinRM(t)
	for name, tt := range map[string]struct {
		addr   string
		change func(*WinRMConfig)
		reason Reason
		says   string
	}{
		"wrong password": {m.Addr, func(c *WinRMConfig) { c.PasswordEnv = "TEST_WRONG" }, ReasonAuth, "refused"},
		"HTTPS":          {secure.Addr, func(*WinRMConfig) {}, ReasonUnreachable, "HTTP status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TEST_WRONG", "another")
			c := m.config(tt.addr)
			c.HTTP = true
			tt.change(&c)
			wantRefusedOver(t, c, tt.reason, tt.says)
		})
	}
	wantUnaltered(t, m.Addr, func(p *tap) WinRMConfig {
		c := m.config(p.addr)
		c.HTTP = true
		return c
	})
}

// wantUnaltered connects through taps that change answers: none of them counts.
func wantUnaltered(t *testing.T, addr string, config func(*tap) WinRMConfig) {
	t.Helper()
	sealedBytes := "application/octet-stream\r\n"
	altered := newTap(t, addr, func(b []byte) {
		if i := strings.Index(string(b), sealedBytes); i >= 0 && i+len(sealedBytes)+90 < len(b) {
			b[i+len(sealedBytes)+85]++
		}
	})
	stripped := newTap(t, addr, func(b []byte) {
		if i := strings.Index(string(b), "multipart/encrypted"); i >= 0 {
			copy(b[i:], "application/soap+xm")
		}
	})
	wantRefusedOver(t, config(altered), ReasonUnreachable, "not sealed by the other side")
	wantRefusedOver(t, config(stripped), ReasonUnreachable, "without encryption")
}

// wantRefusedOver checks that no connection comes of it.
func wantRefusedOver(t *testing.T, c WinRMConfig, reason Reason, says string) {
	t.Helper()
	conn, err := DialWinRM(t.Context(), c, selfAgent)
	if err == nil {
		_ = conn.Close()
	}
	var ce *ConnectError
	if !errors.As(err, &ce) || ce.Reason != reason || !strings.Contains(ce.Error(), says) {
		t.Fatalf("have %v, want %s with %q", err, reason, says)
	}
}

package netproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

func open(t *testing.T, rtt time.Duration) (*Proxy, net.Conn) {
	p, err := Start(echo(t), rtt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.Port()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return p, c
}

func TestDelay(t *testing.T) {
	const rtt = 60 * time.Millisecond
	_, c := open(t, rtt)
	began := time.Now()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < rtt {
		t.Errorf("answer after %v, want at least %v", took, rtt)
	}
}

// Two requests of which the second waits for the first answer are two round trips; requests that are sent
// together are one.
func TestTrips(t *testing.T) {
	p, c := open(t, 40*time.Millisecond)
	ask := func(n int) {
		t.Helper()
		for range n {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range []int{1, 5, 1} {
		ask(n)
		if have := p.Trips(); have != int64(i+1) {
			t.Errorf("after %d questions: %d round trips", i+1, have)
		}
	}
}

func TestCutAfter(t *testing.T) {
	p, c := open(t, 0)
	p.CutAfter(100)
	if _, err := c.Write(make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 60)); err != nil {
		t.Fatalf("before the cut: %v", err)
	}
	if _, err := c.Write(make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	// What has arrived may still be echoed; then the connection closes.
	_, err := io.Copy(io.Discard, c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection was not cut: %v", err)
	}
	if p.BytesToServer() != 120 {
		t.Errorf("BytesToServer = %d, want 120", p.BytesToServer())
	}
}

// What the server sends after the bytes that may pass does not arrive, and the connection ends when it is cut.
func TestHoldAfter(t *testing.T) {
	p, c := open(t, 0)
	held := p.HoldAfter(100)
	if _, err := c.Write(make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-held:
		t.Fatal("held before it had to be")
	default:
	}
	if _, err := c.Write(make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-held:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was held")
	}
	p.Cut()
	if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes passed, %v", n, err)
	}
}

package sshtest

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP proxy that delays both directions, can be cut, also after a number of
// bytes, can stall or refuse, and counts round trips: the times that the client speaks after
// it has heard something new.
type Proxy struct {
	Addr    string
	target  string
	delay   time.Duration
	CutAt   int64 // bytes from the client after which the connection is cut; 0 = never
	Sent    atomic.Int64
	Trips   atomic.Int64
	heard   atomic.Bool
	Stalled atomic.Bool // what is sent gets lost
	Refuses atomic.Bool // new connections end at once
	stop    chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	conns   []net.Conn
}

// NewProxy starts a proxy of an address; it ends with the test.
func NewProxy(t testing.TB, target string, delay time.Duration) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, delay: delay, stop: make(chan struct{})}
	p.heard.Store(true) // the first words of the client begin the first trip
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(p.stop)
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err == nil && p.Refuses.Load() {
		err = errors.Join(errRefused, server.Close())
	}
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	p.wg.Go(func() {
		p.pump(server, client, func(n int) bool {
			if p.heard.Swap(false) {
				p.Trips.Add(1)
			}
			return p.CutAt == 0 || p.Sent.Add(int64(n)) < p.CutAt
		}, func() {})
	})
	p.pump(client, server, func(int) bool { return true }, func() { p.heard.Store(true) })
}

var errRefused = errors.New("refused")

type chunk struct {
	b   []byte
	due time.Time
}

// pump carries bytes with the delay; took is asked on receipt, gave told on delivery.
func (p *Proxy) pump(dst, src net.Conn, took func(n int) bool, gave func()) {
	queue := make(chan chunk, 1<<16)
	p.wg.Go(func() {
		defer func() { _ = dst.Close() }()
		for c := range queue {
			select {
			case <-time.After(time.Until(c.due)):
			case <-p.stop:
				return
			}
			if p.Stalled.Load() {
				continue
			}
			gave()
			if _, err := dst.Write(c.b); err != nil {
				return
			}
		}
	})
	defer close(queue)
	for {
		b := make([]byte, 64<<10)
		n, err := src.Read(b)
		if n > 0 {
			if !took(n) {
				p.Cut()
				return
			}
			queue <- chunk{b[:n], time.Now().Add(p.delay)}
		}
		if err != nil {
			return
		}
	}
}

// Package netproxy is a TCP proxy between a client and a server. It delays each direction by half a round trip,
// can hold what the server sends, and can cut its connections.
package netproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy forwards connections to one address.
type Proxy struct {
	listener net.Listener
	target   string
	oneWay   time.Duration
	work     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	cutAt  int64 // bytes to the server, over all connections; 0 = never
	closed bool
	holds  *hold // of what the server sends; nil = none

	toServer atomic.Int64
	accepted atomic.Int64
	trips    atomic.Int64
	heard    atomic.Bool // something has gone to a client since a client last spoke
}

// Start listens on a free loopback port and forwards to target. Each direction is
// delayed by half of rtt; the order of bytes is kept and bandwidth is not limited.
func Start(target string, rtt time.Duration) (*Proxy, error) {
	return StartAt("127.0.0.1", target, rtt)
}

// StartAt is Start on a free port of another address of the machine.
func StartAt(ip, target string, rtt time.Duration) (*Proxy, error) {
	return StartOn(net.JoinHostPort(ip, "0"), target, rtt)
}

// StartOn is Start on an address with its port.
func StartOn(address, target string, rtt time.Duration) (*Proxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, oneWay: rtt / 2, conns: map[net.Conn]struct{}{}}
	p.heard.Store(true) // the first words of a client begin the first trip
	p.work.Go(p.accept)
	return p, nil
}

// Port of the proxy on its address.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Accepted counts the connections so far.
func (p *Proxy) Accepted() int64 { return p.accepted.Load() }

// BytesToServer counts what clients have sent so far.
func (p *Proxy) BytesToServer() int64 { return p.toServer.Load() }

// Trips counts the round trips so far: each time that a client sends after it has received something. With a
// delay, everything that is sent without waiting for an answer counts as one.
func (p *Proxy) Trips() int64 { return p.trips.Load() }

// CutAfter cuts all connections once, when n more bytes have gone to the server.
func (p *Proxy) CutAfter(n int64) {
	p.mu.Lock()
	p.cutAt = p.toServer.Load() + n
	p.mu.Unlock()
}

// hold is what of the server's bytes still passes, over all connections, and what comes then.
type hold struct {
	left int64
	held chan struct{} // closed when something waits
	over chan struct{} // closed when the connections are cut
}

// HoldAfter lets n more bytes of the server pass, over all connections, and keeps back what comes then until the
// connections are cut. The channel is closed when something is kept back.
func (p *Proxy) HoldAfter(n int64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = &hold{n, make(chan struct{}), make(chan struct{})}
	return p.holds.held
}

// answered lets n bytes of the server pass, or waits.
func (p *Proxy) answered(n int) {
	p.mu.Lock()
	h := p.holds
	wait := false
	if h != nil {
		before := h.left
		h.left -= int64(n)
		if wait = h.left < 0; wait && before >= 0 {
			close(h.held)
		}
	}
	p.mu.Unlock()
	if wait {
		<-h.over
	}
}

// Cut ends all connections at once with a reset; new ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *Proxy) cutLocked() {
	p.cutAt = 0
	for c := range p.conns {
		if t, ok := c.(*net.TCPConn); ok {
			t.SetLinger(0)
		}
		c.Close()
	}
	if p.holds != nil { // what was held back finds the connections closed
		close(p.holds.over)
		p.holds = nil
	}
}

// Close ends the proxy and waits for what it started.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.cutLocked()
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		server, err := net.DialTimeout("tcp", p.target, 10*time.Second)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.work.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { p.pipe(server, client, p.spoke, func() {}) })
			both.Go(func() { p.pipe(client, server, p.answered, func() { p.heard.Store(true) }) })
			both.Wait()
			p.forget(client, server)
		})
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			c.Close()
		} else {
			p.conns[c] = struct{}{}
		}
	}
	return !p.closed
}

// piece is what was read at once, and when it is to be written.
type piece struct {
	data []byte
	due  time.Time
}

// queue limits the data in transit in one direction, in reads of up to 32 KiB.
const queue = 1024

// pipe moves bytes one way until its source ends or a side is cut. The delay of one piece never adds to that of
// the next. took is called after data has been read from the source, gave before it is written.
func (p *Proxy) pipe(to, from net.Conn, took func(n int), gave func()) {
	way := make(chan piece, queue)
	var writer sync.WaitGroup
	writer.Go(func() {
		for h := range way {
			if wait := time.Until(h.due); wait > 0 {
				time.Sleep(wait)
			}
			gave()
			if _, err := to.Write(h.data); err != nil {
				from.Close()
				for range way { // until the reader has seen the end
				}
				return
			}
		}
		if t, ok := to.(*net.TCPConn); ok {
			t.CloseWrite()
		}
	})
	defer writer.Wait()
	defer close(way)
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			took(n)
			way <- piece{buffer[:n], time.Now().Add(p.oneWay)}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				to.Close()
			}
			return
		}
	}
}

// spoke counts n bytes from a client.
func (p *Proxy) spoke(n int) {
	if p.heard.Swap(false) {
		p.trips.Add(1)
	}
	sent := p.toServer.Add(int64(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutAt > 0 && sent >= p.cutAt {
		p.cutLocked()
	}
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

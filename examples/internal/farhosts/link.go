//go:build linux

package farhosts

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Link is what connections of all hosts share: it delays, and is as fast for all of them together as it is.
type Link struct {
	delay    time.Duration // one way
	up, down direction     // to the hosts, and from them
	conns    atomic.Int64
}

// direction of a link: as fast for all together as it is.
type direction struct {
	perByte float64 // nanoseconds
	bytes   atomic.Int64
	mu      sync.Mutex
	busy    time.Time // until when the wire is
}

// NewLink is a link with a round-trip time and a speed in each direction, in MB/s; 0 = no limit.
func NewLink(rtt time.Duration, rate float64) *Link {
	l := &Link{delay: rtt / 2}
	if rate > 0 {
		l.up.perByte, l.down.perByte = 1e3/rate, 1e3/rate
	}
	return l
}

// Reset starts the counters again.
func (l *Link) Reset() {
	l.up.bytes.Store(0)
	l.down.bytes.Store(0)
	l.conns.Store(0)
}

// Used is what crossed the link since the last Reset: MB to the hosts and from them, and connections.
func (l *Link) Used() (up, down float64, conns int64) {
	return float64(l.up.bytes.Load()) / 1e6, float64(l.down.bytes.Load()) / 1e6, l.conns.Load()
}

// send is when n bytes have left.
func (d *direction) send(n int) time.Time {
	d.bytes.Add(int64(n))
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.busy.Before(now) {
		d.busy = now
	}
	d.busy = d.busy.Add(time.Duration(float64(n) * d.perByte))
	return d.busy
}

// Serve carries connections that l accepts to target until l is closed.
func (l *Link) Serve(ctx context.Context, listener net.Listener, target string) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		l.conns.Add(1)
		server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		all.Go(func() { l.carry(server, client, &l.up, 2*l.delay) }) // the handshake of TCP takes a round trip
		all.Go(func() { l.carry(client, server, &l.down, 0) })
	}
}

type chunk struct {
	b   []byte
	due time.Time
}

// carry carries one direction of a connection; first is what its first bytes wait for.
func (l *Link) carry(dst, src net.Conn, d *direction, first time.Duration) {
	queue := make(chan chunk, 1<<14)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _, _ = dst.Close(), src.Close() }()
		for c := range queue {
			time.Sleep(time.Until(c.due)) // the link
			if _, err := dst.Write(c.b); err != nil {
				return
			}
		}
	}()
	for {
		b := make([]byte, 32<<10)
		n, err := src.Read(b)
		if n > 0 {
			left := d.send(n)
			select {
			case queue <- chunk{b[:n], left.Add(l.delay + first)}:
			case <-ended:
				return
			}
			first = 0
			// No more than one delay's worth waits in front of the wire, as in a router.
			time.Sleep(time.Until(left) - l.delay)
		}
		if err != nil {
			close(queue)
			<-ended
			return
		}
	}
}

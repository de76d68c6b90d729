package transport

import (
	"io"
	"time"
)

const (
	paceEvery = 64 << 10              // bytes: what a pipe of Linux takes at once
	paceNear  = 10 * time.Millisecond // a reply within it comes from a machine nearby
	paceWait  = time.Second           // for the reply of one nearby, which may be busy
	paceTries = 3                     // replies that are later than paceNear, until the machine counts as far
)

// paced writes to a server nearby no faster than it reads: it asks the server for a reply after each part, and waits
// for that. OpenSSH copies all that it holds back for a program with each packet, so that 4 MB which come at once cost
// it more processor time than it takes to unpack them. A longer way needs no pace, and gets none.
type paced struct {
	io.Writer
	ask   func()         // returns with the server's reply
	begin func(f func()) // runs f beside this
	sent  int            // bytes since the last part
	reply chan struct{}  // closed with the reply; nil = nothing was asked
	near  bool
	late  int
}

func (p *paced) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if p.sent += n; err != nil || p.sent < paceEvery || p.late == paceTries {
		return n, err
	}
	p.sent = 0
	if p.reply == nil {
		reply := make(chan struct{})
		p.reply = reply
		p.begin(func() {
			defer close(reply)
			p.ask()
		})
	}
	wait := paceNear
	if p.near {
		wait = paceWait
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-p.reply:
		p.reply, p.near, p.late = nil, true, 0
	case <-t.C:
		p.late++
	}
	return n, nil
}

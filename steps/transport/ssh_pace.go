package transport

import (
	"io"
	"time"
)

const (
	paceEvery = 64 << 10              // bytes: what a pipe of Linux takes at once
	paceNear  = 10 * time.Millisecond // a shorter round trip is that of a machine nearby
	paceWait  = time.Second           // for a reply, which a busy machine sends late
	paceTries = 3                     // late replies, until no more are waited for
)

// paced writes to a program on a machine nearby no faster than it reads: after each part it asks the machine's server
// for a reply, and waits for that. OpenSSH copies all that it holds back for a program with each packet, so that 4 MB
// which come at once cost it more processor time than it takes to unpack them. A longer way is not paced, but for the
// first part, after which TCP's slow start takes as long: that waits until the program reads.
type paced struct {
	io.Writer
	taken <-chan struct{} // closed when the program reads
	near  bool
	ask   func()         // returns with the server's reply
	begin func(f func()) // runs f beside this
	sent  int            // bytes since the last part
	reply <-chan struct{}
	late  int
}

func (p *paced) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if p.sent += n; err != nil || p.sent < paceEvery || p.late == paceTries {
		return n, err
	}
	p.sent = 0
	switch {
	case p.taken != nil:
		p.reply, p.taken = p.taken, nil
	case !p.near && p.reply == nil:
		p.late = paceTries
		return n, nil
	case p.reply == nil:
		reply := make(chan struct{})
		p.reply = reply
		p.begin(func() {
			defer close(reply)
			p.ask()
		})
	}
	t := time.NewTimer(paceWait)
	defer t.Stop()
	select {
	case <-p.reply:
		p.reply, p.late = nil, 0
	case <-t.C:
		p.late++
	}
	return n, nil
}

package transport

import (
	"io"
	"time"
)

const (
	paceEvery = 64 << 10              // bytes: what a pipe of Linux takes at once
	paceNear  = 10 * time.Millisecond // a shorter round trip is that of a machine nearby
	paceWait  = time.Second           // for a reply, which a busy machine sends late
	paceTries = 3                     // replies that are later, until no more are waited for
	// paceProbes is of how many replies one must come within paceNear. A busy machine nearby sends some late; behind a
	// port that is forwarded from nearby, all are.
	paceProbes = 6
)

// paced writes to a program on a machine nearby no faster than it reads: after each part it asks the machine's server
// for a reply, and waits for that. OpenSSH copies all that it holds back for a program with each packet, so that 4 MB
// which come at once cost it more processor time than it takes to unpack them. On a longer way it only waits
// after the first part, until the program reads; TCP's slow start hides that.
type paced struct {
	io.Writer
	taken <-chan struct{} // closed when the program reads
	near  bool
	ask   func()         // returns with the server's reply
	begin func(f func()) // runs f beside this
	sent  int            // bytes since the last part
	reply <-chan struct{}
	asked int  // replies
	quick bool // one came within paceNear
	late  int
}

func (p *paced) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if p.sent += n; err != nil || p.sent < paceEvery || p.late == paceTries {
		return n, err
	}
	p.sent = 0
	if p.taken != nil {
		p.reply, p.taken = p.taken, nil
		p.wait()
		return n, nil
	}
	if p.reply == nil && (!p.near || p.asked == paceProbes && !p.quick) {
		p.late = paceTries
		return n, nil
	}
	if p.reply == nil {
		reply := make(chan struct{})
		p.reply = reply
		p.begin(func() {
			defer close(reply)
			p.ask()
		})
		p.asked++
	}
	if begun := time.Now(); p.wait() && p.asked > 0 && time.Since(begun) < paceNear {
		p.quick = true
	}
	return n, nil
}

// wait waits for a reply, and is false where it is late.
func (p *paced) wait() bool {
	t := time.NewTimer(paceWait)
	defer t.Stop()
	select {
	case <-p.reply:
		p.reply, p.late = nil, 0
		return true
	case <-t.C:
		p.late++
		return false
	}
}

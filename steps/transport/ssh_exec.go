package transport

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// process is a program that was started on the machine.
type process struct {
	ssh.Channel
	done chan struct{} // closed when the channel's requests have ended, and standard error is read

	mu     sync.Mutex
	status string // "exit status 127", "signal KILL"; "" = not known
	stderr tail
}

// start runs a command line. It asks for no confirmation, which would cost a round
// trip: a command that cannot run ends the channel.
func start(client *ssh.Client, line string) (*process, error) {
	ch, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, err
	}
	p := &process{Channel: ch, done: make(chan struct{})}
	heard := make(chan struct{})
	go func() { // ends with the channel
		_, _ = io.Copy(&p.stderr, ch.Stderr())
		close(heard)
	}()
	go func() {
		p.serve(requests)
		<-heard
		close(p.done)
	}()
	if _, err := ch.SendRequest("exec", false, ssh.Marshal(struct{ Command string }{line})); err != nil {
		_ = ch.Close()
		return nil, err
	}
	return p, nil
}

// serve notes how the program ended (RFC 4254, 6.10).
func (p *process) serve(requests <-chan *ssh.Request) {
	for r := range requests {
		p.mu.Lock()
		switch r.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				p.status = fmt.Sprintf("exit status %d", m.Status)
			}
		case "exit-signal":
			var m struct {
				Signal string
				Core   bool
				Text   string
				Lang   string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				p.status = "ended by signal " + m.Signal
			}
		}
		p.mu.Unlock()
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

// end says how the program ended and what it wrote last; it waits for that no
// longer than bound.
func (p *process) end(bound time.Duration) string {
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var parts []string
	if p.status != "" {
		parts = append(parts, p.status)
	}
	if s := p.stderr.String(); s != "" {
		parts = append(parts, s)
	}
	return strings.Join(parts, ": ")
}

func (p *process) last() string { return p.stderr.String() }

// tail keeps the last bytes of what is written to it. Safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// tailSize in bytes: the last lines of a crash.
const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailSize {
		t.b = append(t.b[:0], t.b[len(t.b)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?"))
}

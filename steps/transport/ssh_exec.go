package transport

import (
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// process is a program that was started on the machine.
type process struct {
	ssh.Channel
	outcome // done when the channel's requests have ended, and standard error is read
}

// start runs a command line. It asks for no confirmation, which would cost a round
// trip: a command that cannot run ends the channel.
func start(client *ssh.Client, line string) (*process, error) {
	ch, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, err
	}
	p := &process{Channel: ch, outcome: outcome{done: make(chan struct{})}}
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
		switch r.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				p.ended(fmt.Sprintf("exit status %d", m.Status))
			}
		case "exit-signal":
			var m struct {
				Signal string
				Core   bool
				Text   string
				Lang   string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				p.ended("ended by signal " + m.Signal)
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

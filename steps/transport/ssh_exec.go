package transport

import (
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"nodejoin/steps/transport/wire"
)

// process is a program that was started on the machine.
type process struct {
	ssh.Channel
	outcome // done when the channel's requests have ended, and standard error is read
	// announce: lines that are written may come to a shell that waits for the agent.
	announce atomic.Bool
}

// A line is announced from announceFrom bytes on, where reading it byte by byte takes longer than to start the program
// that skips it, and up to announceTo, as that takes memory of its length.
const (
	announceFrom = 4 << 10
	announceTo   = 8 << 20
)

// Write announces the first long line. While p.announce is set, b must be one line.
func (p *process) Write(b []byte) (int, error) {
	if len(b) >= announceFrom && p.announce.CompareAndSwap(true, false) {
		if len(b) <= announceTo {
			if _, err := fmt.Fprintln(p.Channel, wire.Announcement(len(b))); err != nil {
				return 0, err
			}
		}
	}
	return p.Channel.Write(b)
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

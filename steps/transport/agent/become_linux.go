package agent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"nodejoin/steps/transport/wire"
)

// becomeBound bounds the time in which sudo runs the agent or asks for a password: shorter than the controller waits
// for the agent's hello, so that the reason is known. The first start of a program may wait for a virus scanner.
const becomeBound = 45 * time.Second

// Become runs the agent with root's rights, for a user who has none, and passes on what the agent and the
// controller say to each other.
type Become struct {
	Method   string // "sudo" or "doas"
	Password bool   // the controller has one, for sudo
	Program  string // path of this program
	Args     []string
	In       io.Reader
	Out      io.WriteCloser
	Err      io.Writer
}

// Run tries without a password first. It returns when the agent has ended; an error says that it failed. That it was
// not run at all is a Refusal to the controller.
func (b Become) Run(ctx context.Context) error {
	if err := checkWay(b.Program, os.Geteuid()); err != nil {
		return b.refuse(wire.RefusedPlace, err.Error())
	}
	path, err := exec.LookPath(b.Method)
	if err != nil {
		return b.refuse(wire.RefusedAbsent, err.Error())
	}
	from := b.listen()
	first := b.attempt(ctx, from, "", path, "-n")
	if first.ran || !b.Password {
		return b.end(first, wire.RefusedAsking)
	}
	prompt := "[nodejoin " + rand.Text() + "] "
	second := b.attempt(ctx, from, prompt, path, "-S", "-p", prompt)
	if second.asked > 1 {
		return b.end(second, wire.RefusedPassword)
	}
	return b.end(second, wire.RefusedDenied)
}

func (b Become) end(a attempt, why wire.RefusalReason) error {
	switch {
	case a.ran:
		return a.err
	case a.silent:
		why = wire.RefusedSilent
	}
	return b.refuse(why, a.said)
}

func (b Become) refuse(why wire.RefusalReason, said string) error {
	if err := b.note(wire.NoteRefused, wire.Refusal{Why: why, Said: said}); err != nil {
		return err
	}
	return fmt.Errorf("%s does not run the agent: %s", b.Method, said)
}

func (b Become) note(method string, params any) error {
	msg, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if err != nil {
		return err
	}
	return wire.NewChannel(nil, b.Out).Send(msg)
}

// heldMessages reads the controller's messages; the channel is closed at their end. What comes before the agent says
// hello waits in held.
type heldMessages struct {
	next chan []byte
	held [][]byte
}

// listen reads until the controller's messages end, which nothing else can end.
func (b Become) listen() *heldMessages {
	m := &heldMessages{next: make(chan []byte)}
	go func() {
		defer close(m.next)
		in := wire.NewChannel(b.In, nil)
		for {
			msg, err := in.Recv()
			if err != nil {
				return
			}
			m.next <- msg
		}
	}()
	return m
}

// attempt is one start of the program that gives root's rights, and what came of it.
type attempt struct {
	ran    bool  // the agent said hello
	err    error // how it ended then
	asked  int   // how many times a password was asked for
	silent bool  // neither came in time
	said   string
}

// attempt runs the agent by the program at path. An empty prompt says that no password is asked for.
func (b Become) attempt(ctx context.Context, from *heldMessages, prompt, path string, options ...string) (a attempt) {
	cmd := exec.CommandContext(ctx, path, append(append(options, "--", b.Program), b.Args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Cancel = func() error { return nil } // a program with root's rights ends by its standard input
	cmd.WaitDelay = becomeBound
	heard := make(chan struct{})
	errs := &asking{prompt: prompt, to: b.Err, asked: make(chan struct{}, 8), heard: heard}
	cmd.Stderr = errs
	cmd.Stdout = &greeted{to: b.Out, heard: heard}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		a.said = err.Error()
		return a
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { a.said = errs.words() }()
	a = b.await(ctx, from, in, errs.asked, heard, ended)
	if !a.ran {
		return a
	}
	return b.pass(ctx, from, in, ended)
}

// await waits for the agent's hello and answers a request for the password meanwhile.
func (b Become) await(ctx context.Context, from *heldMessages, in io.WriteCloser, asked, heard <-chan struct{},
	ended <-chan error) (a attempt) {
	bound := time.NewTimer(becomeBound)
	defer bound.Stop()
	stop := func() { _ = in.Close() }
	next := from.next
	for {
		select {
		case <-heard:
			a.ran = true
			return a
		case <-ended: //nolint:errcheck // it did not run the agent, and says why on standard error
			select {
			case <-heard: // and ended at once
				a.ran = true
			default:
			}
			a.asked += len(asked)
			return a
		case <-asked:
			if a.asked++; a.asked > 1 || b.note(wire.NoteAsk, struct{}{}) != nil {
				stop() // it would ask again; every try counts against the user
			}
		case msg, ok := <-next:
			if !ok {
				next = nil
				stop()
			} else if password, is := passwordOf(msg); !is {
				from.held = append(from.held, msg)
			} else if a.asked == 1 {
				_, _ = in.Write(append(password, '\n'))
				clear(password)
			}
		case <-bound.C:
			a.silent = true
			stop()
			return a
		case <-ctx.Done():
			stop()
			return a
		}
	}
}

// passwordOf is the password that a message brings; it must be cleared.
func passwordOf(msg []byte) (password []byte, ok bool) {
	var m struct {
		Method string        `json:"method"`
		Params wire.Password `json:"params"`
	}
	if !bytes.Contains(msg, []byte(wire.NotePassword)) || json.Unmarshal(msg, &m) != nil ||
		m.Method != wire.NotePassword {
		return nil, false
	}
	clear(msg)
	return []byte(m.Params.Password), true
}

// pass brings the controller's messages to the agent until it ends; their end ends the agent.
func (b Become) pass(ctx context.Context, from *heldMessages, in io.WriteCloser, ended <-chan error) attempt {
	to := wire.NewChannel(nil, in)
	for _, msg := range from.held {
		_ = to.Send(msg) // one that is gone ends
	}
	from.held = nil
	next := from.next
	for {
		select {
		case msg, ok := <-next:
			if !ok {
				next = nil
				_ = to.Close()
			} else if to.Send(msg) != nil {
				next = nil
			}
		case <-ctx.Done():
			_ = to.Close()
			return attempt{ran: true, err: errors.Join(context.Cause(ctx), <-ended)}
		case err := <-ended:
			return attempt{ran: true, err: err}
		}
	}
}

// greeted passes on what the agent says, from its hello on. What PAM says before is dropped.
type greeted struct {
	to    io.Writer
	heard chan struct{} // closed at hello
	line  []byte
	spoke bool
}

func (g *greeted) Write(p []byte) (int, error) {
	n := len(p)
	for !g.spoke {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if g.line = append(g.line, p...); len(g.line) > wire.Line {
				return 0, bufio.ErrTooLong
			}
			return n, nil
		}
		g.line, p = append(g.line, p[:i+1]...), p[i+1:]
		var m struct {
			Method string `json:"method"`
		}
		if json.Unmarshal(g.line, &m) == nil && m.Method == wire.NoteHello {
			if _, err := g.to.Write(g.line); err != nil {
				return 0, err
			}
			g.spoke = true
			close(g.heard)
		}
		g.line = nil
	}
	if len(p) > 0 {
		if _, err := g.to.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// asking keeps what sudo says on standard error, and tells of its requests for a password. After the agent's hello
// standard error is the agent's, and passed on.
type asking struct {
	prompt string // "" = none is expected
	to     io.Writer
	asked  chan struct{}
	heard  <-chan struct{}

	mu   sync.Mutex
	text []byte
}

// saidSize bounds what is kept of standard error, in bytes.
const saidSize = 4 << 10

func (a *asking) Write(p []byte) (int, error) {
	select {
	case <-a.heard:
		return a.to.Write(p)
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text = append(a.text, p...)
	for a.prompt != "" {
		i := bytes.Index(a.text, []byte(a.prompt))
		if i < 0 {
			break
		}
		a.text = a.text[i+len(a.prompt):] // before the first one there may be a lecture
		select {
		case a.asked <- struct{}{}:
		default:
		}
	}
	if over := len(a.text) - saidSize; over > 0 {
		a.text = a.text[over:]
	}
	return len(p), nil
}

// words is what was said since the last request for a password, on one line.
func (a *asking) words() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(a.text), "?")), " ")
}

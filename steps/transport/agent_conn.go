package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"nodejoin/steps/transport/wire"
)

// door is the way to a machine: how its agent is carried in and started.
type door interface {
	// open starts a command line in the home folder of the user who logs in. If it cannot run, that is an error, or the
	// program ends at once.
	open(line string) (program, error)
	// bring sends the agent and starts it. tried says that this was done before; pushed, that no other way is left.
	bring(ctx context.Context, tried bool) (pushed bool, err error)
	// upload sends an artifact to the file state.Temp of the machine, after what is there already.
	upload(ctx context.Context, c *Content, blob wire.Blob, state wire.BlobState, progress func(done, total int64)) error
	// crashed is what the agent wrote to its file when it crashed; "" if it did not, or if that is not known before ctx
	// ends.
	crashed(ctx context.Context) string
	// removeAgents removes the programs of agents, then their folder if it is empty.
	removeAgents(ctx context.Context) error
	// blame adds to the error of a lost connection which server on the way has ended it, if that is known.
	blame(err error) error
	// hangUp ends the connection without waiting for the machine. It may be called again.
	hangUp()
	// release frees what is left after hangUp.
	release()
}

// program is a program that was started on the machine.
type program interface {
	io.ReadWriteCloser
	CloseWrite() error
	// end says how the program ended and what it wrote last; it waits for that no longer than bound.
	end(bound time.Duration) string
	// last is what it wrote last to standard error.
	last() string
}

// agentConn is a Conn through the agent of a machine. But for Close its calls are
// made one at a time.
type agentConn struct {
	cfg      Target
	door     door
	name     string  // "Administrator@10.0.0.21:22"
	user     string  // who logged in
	become   *Become // nil = the user has all rights
	password string  // for become
	needs    string  // what the machine must allow, for a remedy
	file     agentFile
	anyShell bool // the user's shell may be one of POSIX, also on Windows
	stop     context.CancelFunc
	work     sync.WaitGroup // what runs for the connection
	over     chan struct{}  // closed when the connection has ended

	staged bool // something was brought to the machine
	sent   bool // the agent was sent, and nodejoin's folder is not known to be private yet

	mu   sync.Mutex
	rpc  *rpc    // of the agent that runs or was last started
	proc program // its process
	lost error   // why we ended the connection ourselves
}

func (s *agentConn) agent() (*rpc, program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rpc, s.proc
}

// ping shows the agent that the controller is there.
func (s *agentConn) ping() {
	if r, _ := s.agent(); r != nil {
		r.notify(wire.NotePing)
	}
}

// lose ends the connection for a reason of the controller's; running calls see it as lost.
func (s *agentConn) lose(cause error) {
	s.mu.Lock()
	if s.lost == nil {
		s.lost = cause
	}
	s.mu.Unlock()
	s.door.hangUp()
}

func (s *agentConn) lostBy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// start starts the agent and takes the place of an earlier one.
func (s *agentConn) start(ctx context.Context) error {
	var p program
	err := s.bounded(ctx, "start the agent", func() (err error) {
		p, err = s.door.open(s.file.line(s.become))
		return err
	})
	if err != nil {
		return err
	}
	s.started(p, s.password)
	return nil
}

// started makes a program the agent, in place of an earlier one. The password is for what gives it root's rights.
func (s *agentConn) started(p program, password string) {
	r := newRPC(p, p, s.lose, password)
	s.mu.Lock()
	s.rpc, s.proc = r, p
	s.mu.Unlock()
}

// bounded runs f, which takes no context; a server that makes it wait too long loses its connection.
func (s *agentConn) bounded(ctx context.Context, what string, f func() error) error {
	bound := s.cfg.boundOf(what, wire.Bound{Within: quiet}).Within
	t := time.AfterFunc(bound, func() { s.lose(silent(what, bound, "nothing came")) })
	stop := context.AfterFunc(ctx, func() { s.lose(context.Cause(ctx)) })
	err := f()
	stop()
	t.Stop()
	if late := s.late(); err != nil && late != nil && ctx.Err() == nil {
		return late
	}
	return err
}

// watch gives up the connection if alive has not been called for too long. stop ends the watch.
func (s *agentConn) watch(what string) (alive, stop func()) {
	bound := s.cfg.boundOf(what, wire.Bound{Within: quiet}).Within
	t := time.AfterFunc(bound, func() { s.lose(silent(what, bound, "nothing came")) })
	return func() { t.Reset(bound) }, func() { t.Stop() }
}

// late is the error of a server for which the connection was given up; nil = it was not.
func (s *agentConn) late() error {
	var ce *ConnectError
	if errors.As(s.lostBy(), &ce) {
		return ce
	}
	return nil
}

// quiet bounds what the server does on its own: a channel that opens, a request of SFTP, a part of a transfer.
const quiet = 2 * time.Minute

// exitWait is how long the exit status of an agent that closed its output is awaited.
const exitWait = time.Second

// crashBound bounds the reading of the file of a crash.
const crashBound = 5 * time.Second

// own makes a call to the agent itself.
func (s *agentConn) own(ctx context.Context, method string, params, result any) error {
	return s.call(ctx, method, wire.OfMethod(method, 0), params, result)
}

// call makes a call and adds to a lost connection what is known of the loss.
func (s *agentConn) call(ctx context.Context, method string, bound wire.Bound, params, result any) error {
	r, p := s.agent()
	err := r.call(ctx, method, s.cfg.boundOf(method, bound), params, result)
	if errors.Is(err, ErrDropped) && !r.absent.Load() {
		err = s.explain(ctx, err, p)
	}
	return err
}

// explain adds why the connection was lost: the controller's own reason, or how the agent ended.
func (s *agentConn) explain(ctx context.Context, err error, p program) error {
	if lost := s.lostBy(); lost != nil {
		return lostConnection(lost)
	}
	if how := p.end(exitWait); how != "" {
		if p.last() == "" {
			bound := s.cfg.boundOf("read the file of a crash", wire.Bound{Within: crashBound}).Within
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
			defer cancel()
			how += s.door.crashed(after)
		}
		return fmt.Errorf("%w: the agent ended: %s", ErrDropped, how)
	}
	return s.door.blame(err)
}

// failed classifies an error of the connection: lost, cancelled, or the agent's.
func (s *agentConn) failed(ctx context.Context, err error) error {
	var ce *ConnectError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ce) || errors.Is(err, ErrDropped):
		return err
	case s.lostBy() != nil:
		return lostConnection(s.lostBy())
	case s.dead():
		return s.door.blame(fmt.Errorf("%w: %w", ErrDropped, err))
	}
	return &ConnectError{Reason: ReasonAgent, Host: s.name, Summary: "the agent could not be pushed",
		Detail: err.Error(), Err: err,
		Remedy: s.needs + ", and the user must be an administrator who may write " + s.cfg.DataDir}
}

// dead reports whether the connection has ended. What failed because of it may be
// seen a moment earlier than the end itself, hence the wait.
func (s *agentConn) dead() bool {
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case <-s.over:
		return true
	case <-t.C:
		return false
	}
}

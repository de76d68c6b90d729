package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"nodejoin/steps/transport/wire"
)

// sshConn is a Conn through the agent of a machine. But for Close its calls are
// made one at a time.
type sshConn struct {
	cfg      SSHConfig
	password string // for cfg.Become
	way      *way
	file     agentFile
	stop     context.CancelFunc
	work     sync.WaitGroup // keep-alive and over
	over     chan struct{}  // closed when the connection has ended

	sftp   *sftp.Client // opened when first needed
	staged bool         // something was brought to the machine

	mu   sync.Mutex
	rpc  *rpc     // of the agent that runs or was last started
	proc *process // it
	lost error    // why we ended the connection ourselves
}

func (s *sshConn) agent() (*rpc, *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rpc, s.proc
}

// ping shows the agent that the controller is there.
func (s *sshConn) ping() {
	if r, _ := s.agent(); r != nil {
		r.notify(wire.NotePing)
	}
}

// lose ends the connection for a reason of the controller's; running calls see it as lost.
func (s *sshConn) lose(cause error) {
	s.mu.Lock()
	if s.lost == nil {
		s.lost = cause
	}
	s.mu.Unlock()
	s.way.close()
}

func (s *sshConn) lostBy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// start starts the agent and takes the place of an earlier one.
func (s *sshConn) start(ctx context.Context) error {
	var p *process
	err := s.bounded(ctx, "start the agent", func() (err error) {
		p, err = start(s.way.last(), s.file.line(s.cfg.Become))
		return err
	})
	if err != nil {
		return err
	}
	s.started(p)
	return nil
}

// started makes a process the agent, in place of an earlier one.
func (s *sshConn) started(p *process) {
	r := newRPC(p, p, s.lose, s.password)
	s.mu.Lock()
	s.rpc, s.proc = r, p
	s.mu.Unlock()
}

// quiet bounds what the SSH server does on its own: a channel that opens, a request of SFTP, a part of a transfer.
const quiet = 2 * time.Minute

// bounded runs f, which takes no context; a server that makes it wait too long loses its connection.
func (s *sshConn) bounded(ctx context.Context, what string, f func() error) error {
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
func (s *sshConn) watch(what string) (alive, stop func()) {
	bound := s.cfg.boundOf(what, wire.Bound{Within: quiet}).Within
	t := time.AfterFunc(bound, func() { s.lose(silent(what, bound, "nothing came")) })
	return func() { t.Reset(bound) }, func() { t.Stop() }
}

// late is the error of a server for which the connection was given up; nil = it was not.
func (s *sshConn) late() error {
	var ce *ConnectError
	if errors.As(s.lostBy(), &ce) {
		return ce
	}
	return nil
}

// sftpPath is the form of a machine's path in SFTP: OpenSSH on Windows has
// /C:/x for C:\x.
func sftpPath(os, p string) string {
	if os != "windows" {
		return p
	}
	p = strings.ReplaceAll(p, `\`, "/")
	if len(p) > 1 && p[1] == ':' {
		p = "/" + p
	}
	return p
}

// files opens SFTP once per connection.
func (s *sshConn) files(ctx context.Context) (*sftp.Client, error) {
	if s.sftp != nil {
		return s.sftp, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	// 128 requests of 32 KiB fill the send window of OpenSSH (2 MiB) at any delay.
	var c *sftp.Client
	err := s.bounded(ctx, "open SFTP", func() (err error) {
		c, err = sftp.NewClient(s.way.last(), sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(128))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open SFTP: %w", err)
	}
	s.sftp = c
	return c, nil
}

// closeFiles closes SFTP and aborts its requests.
func (s *sshConn) closeFiles() {
	if s.sftp != nil {
		_ = s.sftp.Close()
		s.sftp = nil
	}
}

// own makes a call to the agent itself.
func (s *sshConn) own(ctx context.Context, method string, params, result any) error {
	return s.call(ctx, method, wire.OfMethod(method, 0), params, result)
}

// call makes a call and adds to a lost connection what is known of the loss.
func (s *sshConn) call(ctx context.Context, method string, bound wire.Bound, params, result any) error {
	r, p := s.agent()
	err := r.call(ctx, method, s.cfg.boundOf(method, bound), params, result)
	if errors.Is(err, ErrDropped) {
		err = s.explain(ctx, err, p)
	}
	return err
}

// explain adds why the connection was lost: the controller's own reason, or how the agent ended.
func (s *sshConn) explain(ctx context.Context, err error, p *process) error {
	if lost := s.lostBy(); lost != nil {
		return lostConnection(lost)
	}
	if how := p.end(exitWait); how != "" {
		if p.stderr.String() == "" {
			how += s.crashed(ctx)
		}
		return fmt.Errorf("%w: the agent ended: %s", ErrDropped, how)
	}
	return err
}

// crashed is what the agent wrote to its file when it crashed; "" if it did not.
func (s *sshConn) crashed(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), crashBound)
	defer cancel()
	c, err := s.files(ctx)
	if err != nil {
		return ""
	}
	f, err := c.Open(sftpPath(s.cfg.OS, s.file.remote) + wire.CrashSuffix)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, tailSize)) // the reason is at the beginning
	if err != nil || len(b) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
}

// crashBound bounds the reading of the file of a crash.
const crashBound = 5 * time.Second

// exitWait is how long the exit status of an agent that closed its output is awaited.
const exitWait = time.Second

// failed classifies an error of the SSH connection: lost, cancelled, or the agent's.
func (s *sshConn) failed(ctx context.Context, err error) error {
	var ce *ConnectError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ce) || errors.Is(err, ErrDropped):
		return err
	case s.lostBy() != nil:
		return lostConnection(s.lostBy())
	case s.dead():
		return fmt.Errorf("%w: %w", ErrDropped, err)
	}
	return &ConnectError{Reason: ReasonAgent, Host: s.way.name, Summary: "the agent could not be pushed",
		Detail: err.Error(), Err: err,
		Remedy: "the SSH server must allow commands and the SFTP subsystem, and the user must be an administrator " +
			"who may write " + s.cfg.DataDir}
}

// dead reports whether the connection has ended. What failed because of it may be
// seen a moment earlier than the end itself, hence the wait.
func (s *sshConn) dead() bool {
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case <-s.over:
		return true
	case <-t.C:
		return false
	}
}

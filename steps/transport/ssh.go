package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

// AgentSource gives the agent for a machine: a file of the controller and its
// sha256 in lower-case hex. agentbin.Get is one.
type AgentSource func(ctx context.Context, os, arch string) (path, sha256 string, err error)

// helloBound is how long a started agent may take to say hello. The first start of
// a new program may wait for a virus scanner.
const helloBound = 60 * time.Second

func (s *sshConn) helloBound() time.Duration {
	return s.cfg.boundOf(wire.NoteHello, wire.Bound{Within: helloBound}).Within
}

// DialSSH connects to a machine, logs in and starts the agent there. Whether the
// agent is there shows only at the first call, which sends its request without
// waiting for that; where it is missing it is pushed then. Errors, of DialSSH and
// of a first call, are *ConnectError.
func DialSSH(ctx context.Context, c SSHConfig, agents AgentSource) (Conn, error) {
	if c.Arch == "" {
		c.Arch = "amd64"
	}
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir(c.OS)
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = defaultKeepAlive
	}
	if c.Notify == nil {
		c.Notify = func(string, string) {}
	}
	if err := checkDataDir(c); err != nil {
		return nil, err
	}
	password, err := c.Become.password(c.Host)
	if err != nil {
		return nil, err
	}
	// The agent is looked up, and where needed built, while the connection is made.
	type found struct {
		file agentFile
		err  error
	}
	lookup := make(chan found, 1)
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		path, digest, err := agents(lctx, c.OS, c.Arch)
		lookup <- found{newAgentFile(c, path, digest), err}
	}()
	w, err := dialWay(ctx, c)
	if err != nil {
		cancel()
		<-lookup
		return nil, cleaned(err)
	}
	f := <-lookup
	if f.err != nil {
		w.close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &ConnectError{Reason: ReasonAgent, Host: w.name, Summary: "no agent for this machine",
			Detail: fmt.Sprintf("%s/%s: %v", c.OS, c.Arch, f.err), Err: f.err}
	}
	s := &sshConn{cfg: c, password: password, way: w, file: f.file, over: make(chan struct{})}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.work.Go(func() { keepAlive(life, w.last(), c.KeepAlive, s.ping, s.lose) })
	s.work.Go(func() {
		_ = w.last().Wait()
		close(s.over)
	})
	if err := s.start(ctx); err != nil {
		err = cleaned(s.failed(ctx, err))
		_ = s.Close() //nolint:contextcheck // ctx may have ended; the connection closes all the same
		return nil, err
	}
	return s, nil
}

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
	r := newRPC(p, p, s.lose, s.password)
	s.mu.Lock()
	s.rpc, s.proc = r, p
	s.mu.Unlock()
	return nil
}

// Do makes a call. One that only reads is sent without waiting for the agent's hello: it
// saves a round trip, and can be sent again if no agent, or not ours, was there. One with secrets waits.
func (s *sshConn) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	if !m.ReadOnly() {
		if err := s.ready(ctx); err != nil {
			return err
		}
		r, _ := s.agent()
		r.setEmit(emit)
		defer r.setEmit(nil)
		return s.call(ctx, m.Method(), m.Bound(), m.Request(), m.Reply())
	}
	if m.Private() {
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	r, p := s.agent()
	// A program that never says hello is not the agent, however long it runs.
	bound := time.AfterFunc(s.helloBound(), func() {
		if !r.spoke() {
			_ = p.Close()
		}
	})
	var reply json.RawMessage
	err := s.call(ctx, m.Method(), m.Bound(), m.Request(), &reply)
	bound.Stop()
	var se *steps.Error
	unheard := err != nil && !errors.As(err, &se) && ctx.Err() == nil && !r.spoke()
	stranger := err == nil && !r.is(s.file.digest)
	if unheard || stranger {
		if err := s.ready(ctx); err != nil {
			return err
		}
		err = s.call(ctx, m.Method(), m.Bound(), m.Request(), &reply)
	}
	if err != nil {
		return err
	}
	return untrusted(m.Method(), json.Unmarshal(reply, m.Reply()))
}

// Lock makes the agent hold the machine's lock until it ends.
func (s *sshConn) Lock(ctx context.Context, req steps.LockRequest) (reply steps.LockReply, err error) {
	if err := s.ready(ctx); err != nil {
		return reply, err
	}
	err = cleaned(s.call(ctx, wire.MethodLock, wire.OfMethod(wire.MethodLock, req.Wait), req, &reply))
	hosttext.Strings(&reply)
	return reply, err
}

func (s *sshConn) Unlock(ctx context.Context) error {
	return cleaned(s.own(ctx, wire.MethodUnlock, wire.None{}, &wire.None{}))
}

// is reports whether the agent that said hello is the file of this digest.
func (c *rpc) is(digest string) bool { return c.spoke() && c.said.Digest == digest }

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

// notFound is how a POSIX shell says that there is no such program (POSIX.1-2017, XCU 2.8.2).
const notFound = "exit status 127"

// ready waits for the agent's hello, and pushes the agent if it is missing or another one. On Windows it
// also tries the path of a POSIX shell.
func (s *sshConn) ready(ctx context.Context) error {
	pushed := false
	var unstarted error // of the path that Windows' own shells take
	for {
		r, p := s.agent()
		err := r.wait(ctx, s.helloBound())
		if err == nil && !r.is(s.file.digest) {
			err = fmt.Errorf("%w: the agent on the machine has another digest: %s", errNoAgent, r.said.Digest)
		}
		if err == nil {
			if pushed {
				// Only once the program is verified by its digest may it change anything.
				return s.secure(ctx)
			}
			return nil
		}
		if !errors.Is(err, errNoAgent) {
			return err
		}
		if err := s.refused(r); err != nil {
			return err
		}
		if lost := s.lostBy(); lost != nil {
			return lostConnection(lost)
		}
		if r.spoke() {
			_ = p.Close() // it runs; there is no exit status to wait for
		}
		how := p.end(exitWait)
		_ = p.Close()
		r.close()
		switch {
		case s.cfg.OS == "windows" && !s.file.posix && (pushed || strings.Contains(how, notFound)):
			s.file.posix = true
			if pushed {
				unstarted = s.noStart(how, err)
			}
		case unstarted != nil:
			return unstarted
		case pushed:
			return s.noStart(how, err)
		default:
			s.cfg.Notify("pushing_agent", s.file.remote)
			if err := s.push(ctx); err != nil {
				return s.failed(ctx, err)
			}
			pushed = true
		}
		if err := s.start(ctx); err != nil {
			return s.failed(ctx, err)
		}
	}
}

// secure makes nodejoin's folder on the machine, or takes it from others.
func (s *sshConn) secure(ctx context.Context) error {
	var done wire.Secured
	err := s.own(ctx, wire.MethodSecure, wire.None{}, &done)
	hosttext.Strings(&done)
	for _, path := range done.Moved {
		s.cfg.Notify("moved_foreign", path)
	}
	var se *steps.Error
	if !errors.As(err, &se) || ctx.Err() != nil {
		return err
	}
	return &ConnectError{Reason: ReasonAgent, Host: s.way.name, Summary: "nodejoin's folder cannot be made",
		Detail: s.cfg.DataDir + ": " + err.Error(), Err: err,
		Remedy: "log in as an administrator who may write there, or name another folder with data_dir"}
}

func (s *sshConn) noStart(how string, err error) error {
	detail := s.file.remote + " was sent, but does not start"
	if how != "" {
		detail += ": " + how
	}
	remedy := fmt.Sprintf("check that the machine is %s/%s, that the user may run programs there, and that no "+
		"virus scanner stops them", s.cfg.OS, s.cfg.Arch)
	if s.cfg.OS == "windows" {
		remedy += `; the shell of SSH sessions is cmd.exe unless HKLM\SOFTWARE\OpenSSH\DefaultShell says otherwise`
	}
	return &ConnectError{Reason: ReasonAgent, Host: s.way.name, Summary: "the agent does not start",
		Detail: detail + ": " + err.Error(), Err: err, Remedy: remedy}
}

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

// Address is the address that was connected to; behind a jump host that is known only where the plan gives it.
func (s *sshConn) Address(host.Facts) string {
	text := s.way.target
	if len(s.way.clients) == 1 {
		text = s.way.last().RemoteAddr().String()
	}
	at, err := netip.ParseAddrPort(text)
	ip := at.Addr().Unmap()
	if err != nil || ip.Zone() != "" || !ip.IsGlobalUnicast() { // loopback: something passes the connection on
		return ""
	}
	return ip.String()
}

// Close ends the connection without waiting for the machine. What was staged and
// not used is dropped there.
func (s *sshConn) Close() error {
	r, p := s.agent()
	s.stop()
	if r != nil && s.staged && s.lostBy() == nil && !r.gone() {
		// Bounded: if the connection does not take these bytes, it is closed.
		t := time.AfterFunc(closeBound, s.way.close)
		r.notify(wire.NoteBye)
		_ = p.CloseWrite()
		t.Stop()
	}
	s.way.close()
	if s.sftp != nil {
		_ = s.sftp.Close()
	}
	if r != nil {
		r.close()
	}
	s.work.Wait()
	return nil
}

// closeBound bounds the last messages to a machine that may be gone.
const closeBound = 2 * time.Second

// checkDataDir refuses what cannot be a folder of the machine.
func checkDataDir(c SSHConfig) error {
	if c.OS != "windows" && c.OS != "linux" {
		return &ConnectError{Reason: ReasonAgent, Host: c.Host, Summary: "unknown operating system",
			Detail: fmt.Sprintf("%q is neither windows nor linux", c.OS)}
	}
	if strings.ContainsAny(c.DataDir, "\x00\n\r") || !absolute(c.OS, c.DataDir) {
		return &ConnectError{Reason: ReasonAgent, Host: c.Host, Summary: "unusable data folder",
			Detail: fmt.Sprintf("%q is no absolute path on %s", c.DataDir, c.OS), Remedy: "use " + DefaultDataDir(c.OS)}
	}
	return nil
}

func absolute(os, p string) bool {
	if os == "windows" {
		return len(p) > 3 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
	}
	return strings.HasPrefix(p, "/")
}

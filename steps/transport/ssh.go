package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

// AgentSource gives the agent for a machine: a file of the controller and its
// sha256 in lower-case hex. agentbin.Get is one.
type AgentSource func(ctx context.Context, os, arch string) (path, sha256 string, err error)

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

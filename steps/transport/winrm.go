package transport

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/transport/wsman"
)

// winrmConn is a Conn over WinRM. The agent's standard input and output are the streams of a shell of the machine, and
// pass through a process in that shell: the agent itself runs outside, as the end of the shell kills what is in it.
type winrmConn struct {
	agentConn
	client *wsman.Client
	shell  *wsman.Shell
	path   *winrmPath
	// unreached says that the machine cannot fetch artifacts from the controller.
	unreached bool
	life      context.Context // of the connection; hangUp ends it
	end       context.CancelFunc
	run       context.Context // of the requests; it ends a little later, so that the agent can end by itself
}

// DialWinRM connects to a machine, logs in and starts the agent there, as DialSSH does.
func DialWinRM(ctx context.Context, c WinRMConfig, agents AgentSource) (Conn, error) {
	var err error
	if c.Target, err = c.filled(c.Host); err != nil {
		return nil, err
	}
	if c.Port == 0 {
		c.Port = DefaultWinRMPort
	}
	addr := net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	name := c.User + "@" + addr
	config, err := c.client(name, addr)
	if err != nil {
		return nil, err
	}
	lookup := agents.lookUp(ctx, c.Target)
	path := &winrmPath{hops: []hop{{host: c.Host, port: c.Port, user: c.User}}}
	config.Dial = path.dial
	client := wsman.New(config)
	shell, err := path.open(ctx, c, client)
	if err != nil {
		lookup.cancel()
		client.Close()
		path.close()
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, context.Cause(ctx)
		}
		return nil, cleaned(err)
	}
	s := &winrmConn{client: client, shell: shell, path: path,
		agentConn: agentConn{cfg: c.Target, name: name, user: c.User, over: make(chan struct{}),
			needs: "WinRM must allow shells, and the machine must have tar.exe, as Windows Server 2019 and later have"}}
	s.door = s
	run, over := context.WithCancel(context.WithoutCancel(ctx))
	s.run = run
	s.life, s.end = context.WithCancel(run)
	s.stop = func() {}                 // hangUp does it, after the last messages
	s.work.Go(func() { s.wait(over) }) //nolint:contextcheck // the connection outlives ctx
	s.work.Go(s.keepAlive)
	if s.file, err = lookup.wait(ctx, name); err == nil {
		s.file.outside = true
		if err = s.start(ctx); err != nil {
			err = cleaned(s.failed(ctx, err))
		}
	}
	if err != nil {
		_ = s.Close() //nolint:contextcheck // ctx may have ended; the connection closes all the same
		return nil, err
	}
	return s, nil
}

// Address is the address that was connected to; behind a jump host that is known only where the plan gives it.
func (s *winrmConn) Address(host.Facts) string { return publicAddress(s.path.remote) }

// blame does nothing: the connection is lost by broken, which knows why.
func (s *winrmConn) blame(err error) error { return err }

func (s *winrmConn) hangUp() { s.end() }

// release waits, within bounds, until the agent and the shell have ended. An agent that takes longer finishes its step
// without the shell.
func (s *winrmConn) release() { <-s.over }

// wait waits for the end of the connection, then for that of the agent, whose input ends, and ends the shell.
func (s *winrmConn) wait(over context.CancelFunc) {
	defer close(s.over)
	<-s.life.Done()
	if _, p := s.agent(); p != nil && s.lostBy() == nil {
		t := time.AfterFunc(2*closeBound, over)
		_ = p.CloseWrite() // which Close or Forget may have done
		p.end(closeBound)
		t.Stop()
	}
	over()
	bound := s.cfg.boundOf("end the shell", wire.Bound{Within: shellBound}).Within
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.run), bound)
	defer cancel()
	_ = s.shell.Delete(ctx) // else the machine ends it by itself
	s.client.Close()
	s.path.close()
}

// shellBound bounds the end of a shell, for which a lost connection has to be made again.
const shellBound = 10 * time.Second

// keepAlive shows the agent that the controller is there. A machine that does not take it is lost, see
// winrmProgram.send.
func (s *winrmConn) keepAlive() {
	t := time.NewTicker(s.cfg.KeepAlive)
	defer t.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-t.C:
			s.ping()
		}
	}
}

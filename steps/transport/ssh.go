package transport

import (
	"context"

	"nodejoin/steps/host"
)

// DialSSH connects to a machine, logs in and starts the agent there. Whether the
// agent is there shows only at the first call, which sends its request without
// waiting for that; where it is missing it is pushed then. Errors, of DialSSH and
// of a first call, are *ConnectError.
func DialSSH(ctx context.Context, c SSHConfig, agents AgentSource) (Conn, error) {
	target, err := c.filled(c.Host)
	if err != nil {
		return nil, err
	}
	c.Target = target
	password, err := c.Become.password(c.Host)
	if err != nil {
		return nil, err
	}
	lookup := agents.lookUp(ctx, c.Target)
	w, err := dialWay(ctx, c)
	if err != nil {
		lookup.cancel()
		return nil, cleaned(err)
	}
	file, err := lookup.wait(ctx, w.name)
	if err != nil {
		w.close()
		return nil, err
	}
	s := &sshConn{way: w, agentConn: agentConn{cfg: c.Target, name: w.name, user: w.user, become: c.Become,
		password: password, needs: "the SSH server must allow commands and the SFTP subsystem", file: file,
		anyShell: c.OS == "windows", over: make(chan struct{})}}
	s.door = s
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.work.Go(func() {
		keepAlive(s.life, w.last(), c.KeepAlive, s.ping, func(err error) { s.lose(s.blame(err)) })
	})
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

// Address is the address that was connected to; behind a jump host that is known only where the plan gives it.
func (s *sshConn) Address(host.Facts) string {
	text := s.way.target
	if len(s.way.clients) == 1 {
		text = s.way.last().RemoteAddr().String()
	}
	return publicAddress(text)
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// stream sends the packed agent to a Linux machine and starts it: on the channel whose shell waits for it, or on one
// of its own. It is false where there is no packed agent, and so nothing was started.
// Whether the machine has unpacked it shows in the hello of the agent, which says the digest of its file.
func (s *sshConn) stream(ctx context.Context) (bool, error) {
	if s.cfg.OS != "linux" {
		return false, nil
	}
	f, size, err := s.file.open(agentbin.PackedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	alive, rest := s.watch("send the agent")
	defer rest()
	stop := context.AfterFunc(ctx, func() { s.lose(context.Cause(ctx)) })
	defer stop()
	waits, waiting := s.agent()
	p, waited := waiting.(*process)
	if waited = waited && waits.absent.Load(); waited {
		_, err = fmt.Fprintf(p, "%s %d\n", wire.PackedFollows, size)
	} else {
		p, err = start(s.way.last(), fmt.Sprintf("sh -c '%s' && %s", s.file.unpack(fmt.Sprint(size)), s.file.line(s.become)))
	}
	if err != nil {
		return false, err
	}
	m := &meter{ctx: ctx, r: f, total: size, alive: alive}
	n, err := io.Copy(&paced{Writer: p, begin: s.work.Go, ask: func() {
		_, _, _ = s.way.last().SendRequest(keepAliveRequest, true, nil) // any answer is one
	}}, m)
	if m.err == nil && err == nil && n != size {
		m.err = fmt.Errorf("%d of %d bytes were read: %w", n, size, io.ErrUnexpectedEOF)
	}
	if m.err != nil {
		_ = p.Close()
		return false, m.err
	}
	// A machine that did not take all of it has refused it, or the connection is lost. ready sees both.
	s.started(p)
	return true, nil
}

// bring sends the agent and starts it: on one channel, or by SFTP where that was tried or cannot be. pushed says that
// it was SFTP.
func (s *sshConn) bring(ctx context.Context, tried bool) (pushed bool, err error) {
	if !tried {
		s.cfg.Notify("pushing_agent", s.file.remote)
		if begun, err := s.stream(ctx); begun || err != nil {
			return false, err
		}
	}
	if r, p := s.agent(); r.absent.Load() {
		_ = p.Close() // its shell would wait
	}
	if err := s.push(ctx); err != nil {
		return false, err
	}
	return true, s.start(ctx)
}

package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// stream sends the packed agent to a shell of a Linux machine that waits for it, unpacks and starts it. It is false
// where there is no packed agent, or no such shell, and so nothing was started.
// Whether the machine has unpacked it shows in the hello of the agent, which says its digest.
func (s *sshConn) stream(ctx context.Context) (bool, error) {
	if s.cfg.OS != "linux" {
		return false, nil
	}
	if there, err := s.waits(ctx); !there || err != nil {
		return false, err
	}
	waits, waiting := s.agent()
	p, ok := waiting.(*process)
	if !ok {
		return false, nil
	}
	forms := []string{agentbin.TGZ}
	if waits.zstd.Load() {
		forms = []string{agentbin.Zstd, agentbin.TGZ}
	}
	f, size, form, err := s.file.first(forms)
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
	sum, err := agentbin.PackedDigest(f.Name())
	if err != nil {
		return false, ofController(err)
	}
	p.announce.Store(false)
	if _, err = fmt.Fprintf(p, "%s %d %s %s\n", wire.PackedFollows, size, form, sum); errors.Is(err, io.EOF) {
		return false, nil // the shell has ended
	} else if err != nil {
		return false, err
	}
	m := &meter{ctx: ctx, r: f, total: size, alive: alive}
	taken, takes := make(chan struct{}), false
	s.work.Go(func() {
		defer close(taken)
		takes = said(p, wire.PackedTaken)
	})
	n, err := io.Copy(&paced{Writer: p, begin: s.work.Go, near: s.way.near, taken: taken, ask: func() {
		_, _, _ = s.way.last().SendRequest(keepAliveRequest, true, nil) // any answer is one
	}}, m)
	if m.err == nil && err == nil && n != size {
		m.err = fmt.Errorf("%d of %d bytes were read: %w", n, size, io.ErrUnexpectedEOF)
	}
	if m.err != nil {
		_ = p.Close()
		return false, m.err
	}
	late := time.NewTimer(s.helloBound())
	defer late.Stop()
	select {
	case <-taken:
	case <-late.C: // p is still read, so it cannot be the agent
		return true, nil
	}
	// A machine that did not take all of it has refused it, or the connection is lost. ready sees both.
	if takes {
		s.started(p, s.password)
	}
	return true, nil
}

// said reads until the end of a line that ends so. It is false if nothing more comes, or too much.
func said(r io.Reader, line string) bool {
	var have []byte
	for b := make([]byte, 1); len(have) < maxNoise; {
		n, err := r.Read(b)
		if n == 0 && err != nil {
			return false
		}
		if have = append(have, b[:n]...); n > 0 && b[0] == '\n' &&
			bytes.HasSuffix(bytes.TrimRight(have, "\r\n"), []byte(line)) {
			return true
		}
	}
	return false
}

// waits reports whether a shell of the machine waits for the agent. It starts one where what was there in the agent's
// place is not the agent, or does not start.
func (s *sshConn) waits(ctx context.Context) (bool, error) {
	if r, _ := s.agent(); r.absent.Load() {
		return true, nil
	}
	var p *process
	err := s.bounded(ctx, "send the agent", func() (err error) {
		p, err = start(s.way.last(), s.file.waitingLine(s.become))
		return err
	})
	if err != nil {
		return false, err
	}
	s.started(p, "") // a shell, which needs none
	r, _ := s.agent()
	err = r.wait(ctx, s.helloBound())
	if r.close(); r.absent.Load() {
		return true, nil
	}
	_ = p.Close()
	if err == nil || errors.Is(err, errNoAgent) {
		return false, nil
	}
	return false, err
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
	s.file.placed = true
	return true, s.start(ctx)
}

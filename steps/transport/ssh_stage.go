package transport

import (
	"context"
	"errors"
	"fmt"

	"nodejoin/steps"
	"nodejoin/steps/transport/wire"
)

// upload sends over SFTP what the machine does not have of an artifact yet, with many requests under way at once.
func (s *sshConn) upload(ctx context.Context, artifact *Content, blob wire.Blob, state wire.BlobState,
	progress func(done, total int64)) error {
	src, f := artifact.Source, artifact.Reader()
	from, err := already(f, state)
	if err != nil {
		return fmt.Errorf("read %s: %w", src.File, err)
	}
	temp := state.Temp
	c, err := s.files(ctx)
	if err != nil {
		return s.stageFailed(ctx, src, err)
	}
	alive, rest := s.watch("send an artifact")
	defer rest()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	m := &meter{ctx: ctx, r: f, total: blob.Size, done: from, alive: alive, progress: progress}
	err = send(c, sftpPath(s.cfg.OS, temp), m)
	if !stop() {
		s.closeFiles()
		return context.Cause(ctx)
	}
	switch {
	case m.err != nil:
		err = fmt.Errorf("read %s: %w", src.File, m.err)
	case err == nil:
		return nil
	default:
		err = s.stageFailed(ctx, src, err)
	}
	if !errors.Is(err, ErrDropped) && m.err == nil {
		// SFTP has no error for a full disk; the agent detects it.
		var full *steps.Error
		if e := s.own(ctx, wire.MethodBlobBegin, blob, &wire.BlobState{}); errors.As(e, &full) &&
			full.Code == steps.CodeNoSpace {
			err = full
		}
	}
	if !errors.Is(err, ErrDropped) {
		if c, opened := s.files(ctx); opened == nil { // stageFailed has closed the former
			_ = c.Remove(sftpPath(s.cfg.OS, temp))
		}
	}
	return err
}

// stageFailed distinguishes a lost connection from a machine that refuses the file.
func (s *sshConn) stageFailed(ctx context.Context, src steps.Source, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.lostBy() != nil:
		return lostConnection(s.lostBy())
	case s.dead():
		return s.blame(fmt.Errorf("%w: %w", ErrDropped, err))
	}
	s.closeFiles()
	return fmt.Errorf("send %s: %w", src.File, err)
}

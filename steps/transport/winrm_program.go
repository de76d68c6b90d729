package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"nodejoin/steps/transport/wsman"
)

// winrmProgram is a program that was started over WinRM.
type winrmProgram struct {
	conn   *winrmConn
	cmd    *wsman.Command
	ctx    context.Context // of its output
	cancel context.CancelFunc
	out    *io.PipeReader
	outcome
}

func (s *winrmConn) open(line string) (program, error) {
	cmd, err := s.shell.Start(s.life, line)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	p := &winrmProgram{conn: s, cmd: cmd, out: r, outcome: outcome{done: make(chan struct{})}}
	p.ctx, p.cancel = context.WithCancel(s.run)
	s.work.Go(func() {
		defer close(p.done)
		_ = w.CloseWithError(p.receive(w))
	})
	return p, nil
}

// receive passes the output on until the program ends.
func (p *winrmProgram) receive(w io.Writer) error {
	for {
		o, err := p.cmd.Receive(p.ctx)
		if err != nil {
			return p.conn.broken(p.ctx, err)
		}
		_, _ = p.stderr.Write(o.Stderr)
		if o.Done {
			p.ended(fmt.Sprintf("exit status %d", o.ExitCode))
		}
		if _, err := w.Write(o.Stdout); err != nil {
			return err
		}
		if o.Done {
			return io.EOF
		}
	}
}

// broken is an error of a request. The connection is lost with it, unless the machine has answered or the request was
// given up here, with ctx.
func (s *winrmConn) broken(ctx context.Context, err error) error {
	var f *wsman.FaultError
	if !errors.As(err, &f) && ctx.Err() == nil && s.life.Err() == nil {
		s.lose(s.path.blame(s.life, s.work.Go, err)) //nolint:contextcheck // the connection may outlive ctx
	}
	return err
}

func (p *winrmProgram) Read(b []byte) (int, error) { return p.out.Read(b) }

func (p *winrmProgram) Write(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		part := b[n:min(len(b), n+wsman.Chunk)]
		if err := p.send(part, false); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// send sends input. A machine that does not take it in the time of two signs of life is lost.
func (p *winrmProgram) send(b []byte, end bool) error {
	bound := 2 * p.conn.cfg.KeepAlive
	ctx, cancel := context.WithTimeoutCause(p.conn.run, bound, fmt.Errorf("no sign of life for %s", bound))
	defer cancel()
	if err := p.cmd.Send(ctx, b, end); err != nil {
		return p.conn.broken(p.conn.run, err)
	}
	return nil
}

func (p *winrmProgram) CloseWrite() error { return p.send(nil, true) }

// Close ends the program, if it still runs, and what waits for its output.
func (p *winrmProgram) Close() error {
	p.cancel()
	_ = p.out.Close()
	if p.conn.life.Err() != nil {
		return nil // it ends with the shell
	}
	ctx, cancel := context.WithTimeout(p.conn.run, closeBound)
	defer cancel()
	return p.cmd.Terminate(ctx)
}

// command runs a command line to its end and returns what it wrote to standard output. in is its input; nil = none. An
// exit status other than 0 is an *exitError.
func (s *winrmConn) command(ctx context.Context, line string, in io.Reader) (string, error) {
	cmd, err := s.shell.Start(ctx, line)
	if err != nil {
		return "", s.broken(ctx, err)
	}
	if in != nil {
		err = s.feed(ctx, cmd, in)
	}
	var refused *wsman.FaultError
	switch {
	case err == nil:
		return s.result(ctx, cmd, line)
	case errors.As(err, &refused): // the program has ended, and why says more
		within, cancel := context.WithTimeout(ctx, closeBound)
		defer cancel()
		var ended *exitError
		if _, why := s.result(within, cmd, line); errors.As(why, &ended) {
			return "", ended
		}
	}
	return "", err
}

// feed sends a command its input and the end of that.
func (s *winrmConn) feed(ctx context.Context, cmd *wsman.Command, in io.Reader) error {
	b := make([]byte, wsman.Chunk)
	for {
		n, err := io.ReadFull(in, b)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		if err := cmd.Send(ctx, b[:n], end); err != nil {
			return s.broken(ctx, err)
		}
		if end {
			return nil
		}
	}
}

// result waits for the end of a command.
func (s *winrmConn) result(ctx context.Context, cmd *wsman.Command, line string) (string, error) {
	var stdout, stderr bytes.Buffer
	for {
		o, err := cmd.Receive(ctx)
		if err != nil {
			return "", s.broken(ctx, err)
		}
		stdout.Write(o.Stdout)
		stderr.Write(o.Stderr)
		if stdout.Len()+stderr.Len() > maxNoise {
			return "", fmt.Errorf("%s: its output is too long", line)
		}
		if !o.Done {
			continue
		}
		_ = cmd.Terminate(ctx) // the machine may forget it
		if o.ExitCode != 0 {
			return "", &exitError{line: line, status: o.ExitCode, stderr: strings.TrimSpace(stderr.String())}
		}
		return stdout.String(), nil
	}
}

// exitError says that a command has failed on the machine.
type exitError struct {
	line   string
	status int
	stderr string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s: exit status %d: %s", e.line, e.status, e.stderr)
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

// errAnswer: the agent said what it has no reason to say. The connection is not tried again: the next answer
// would be no better.
var errAnswer = errors.New("the answer cannot be trusted")

// untrusted wraps the error of an invalid answer in a *ConnectError; nil stays nil.
func untrusted(method string, err error) error {
	if err == nil {
		return nil
	}
	return &ConnectError{Reason: ReasonAnswer, Summary: "the machine's answer cannot be trusted",
		Detail: method + ": " + err.Error(),
		Remedy: "nothing of the answer was used; look at who else is at work on the machine, and at its SSH server. " +
			"A machine that " +
			"nobody has tampered with does not answer so: then report it as a bug of nodejoin",
		Err: fmt.Errorf("%w: %w", errAnswer, err)}
}

// silent is the error of a call that was not answered in time.
func silent(method string, bound time.Duration, what string) error {
	return &ConnectError{Reason: ReasonSilent, Summary: "the machine does not answer",
		Detail: fmt.Sprintf("%s: %s within %s", method, what, bound),
		Remedy: "the connection was given up; look at what hangs on the machine, then run the same again"}
}

// cleaned is err with a text that can be printed: what an SSH server or an agent says is part of many errors.
func cleaned(err error) error {
	if err == nil {
		return nil
	}
	if se := (*steps.Error)(nil); errors.As(err, &se) {
		hosttext.Strings(se)
	}
	if ce := (*ConnectError)(nil); errors.As(err, &ce) {
		ce.Host, ce.Summary = hosttext.Line(ce.Host), hosttext.Line(ce.Summary)
		ce.Detail, ce.Remedy = hosttext.Clean(ce.Detail), hosttext.Clean(ce.Remedy)
	}
	if text := err.Error(); hosttext.Clean(text) != text {
		return &cleanError{text: hosttext.Clean(text), err: err}
	}
	return err
}

type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }

// flood counts what the agent says besides replies: a machine that talks without end takes time of the
// controller, and room on its screen.
type flood struct {
	since time.Time
	n     int
}

// Bounds of a flood: this many messages in this time.
const (
	floodTime = 10 * time.Second
	floodMost = 5_000
)

func (f *flood) one(now time.Time) error {
	if now.Sub(f.since) > floodTime {
		f.since, f.n = now, 0
	}
	if f.n++; f.n > floodMost {
		return fmt.Errorf("%w: more than %d messages in %s", errAnswer, floodMost, floodTime)
	}
	return nil
}

// boundOf is the bound of a call to the machine; c may shorten it.
func (c SSHConfig) boundOf(method string, b wire.Bound) wire.Bound {
	if c.Bounds != nil {
		return c.Bounds(method, b)
	}
	return b
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

// lostConnection is the error of a connection that was lost for a reason of ours.
func lostConnection(why error) error {
	if ce := (*ConnectError)(nil); errors.As(why, &ce) {
		return ce // it would be no better next time
	}
	return fmt.Errorf("%w: %w", ErrDropped, why)
}

package transport

import (
	"errors"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/hosttext"
)

// ErrDropped says that the connection was lost.
var ErrDropped = errors.New("the connection was lost")

// ConnectError says why a machine could not be reached or refused the login. Exit code 4, and 1 where the controller
// is the reason.
type ConnectError struct {
	Reason  Reason
	Host    string // "Administrator@10.0.0.21:22"
	Summary string // "unknown host key"
	Detail  string
	Remedy  string
	Err     error
}

func (e *ConnectError) Error() string {
	if e.Reason == ReasonController {
		return e.Summary + ": " + e.Detail
	}
	return fmt.Sprintf("%s: %s: %s", e.Host, e.Summary, e.Detail)
}

// Unwrap returns the reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// Reason says which part of connecting failed.
type Reason string

const (
	ReasonUnreachable Reason = "unreachable"
	ReasonHostKey     Reason = "host_key"     // another key than the known one
	ReasonUnknownHost Reason = "unknown_host" // no key is known
	ReasonAuth        Reason = "auth"         // the login was refused
	ReasonKey         Reason = "key"          // a key file cannot be read or opened
	ReasonForward     Reason = "forward"      // a jump host does not forward
	ReasonAgent       Reason = "agent"        // the agent could not be pushed or started
	ReasonSilent      Reason = "silent"       // a call was not answered in time
	ReasonAnswer      Reason = "answer"       // what was answered is not an answer to what was asked
	ReasonController  Reason = "controller"   // a file of the controller's own; it is the same for all machines
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

// ofController wraps an error of agentbin, which is about the controller's own files, in a *ConnectError. Another
// error stays as it is.
func ofController(err error) error {
	var se *steps.Error
	if !errors.As(err, &se) {
		return err
	}
	return &ConnectError{Reason: ReasonController, Summary: se.Summary, Detail: se.Detail, Remedy: se.Remedy, Err: err}
}

// OfController reports whether an error is about the controller and no machine.
func OfController(err error) bool {
	var ce *ConnectError
	return errors.As(err, &ce) && ce.Reason == ReasonController
}

// silent is the error of a call that was not answered in time.
func silent(method string, bound time.Duration, what string) error {
	return &ConnectError{Reason: ReasonSilent, Summary: "the machine does not answer",
		Detail: fmt.Sprintf("%s: %s within %s", method, what, bound),
		Remedy: "the connection was given up; look at what hangs on the machine, then run the same again"}
}

// cleaned is err with a text that can be printed: what an SSH server or an agent says is part of many errors.
// It is cut where it is long.
func cleaned(err error) error {
	if err == nil {
		return nil
	}
	if se := (*steps.Error)(nil); errors.As(err, &se) {
		hosttext.Strings(se)
	}
	if ce := (*ConnectError)(nil); errors.As(err, &ce) {
		ce.Host, ce.Summary = hosttext.Line(ce.Host), hosttext.Line(ce.Summary)
		ce.Detail, ce.Remedy = hosttext.Short(hosttext.Clean(ce.Detail)), hosttext.Clean(ce.Remedy)
	}
	if text := err.Error(); hosttext.Clean(text) != text || len(text) > 2*hosttext.Longest {
		return &cleanError{text: hosttext.Short(hosttext.Clean(text)), err: err}
	}
	return err
}

type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }

// lostConnection is the error of a connection that was lost for a reason of ours.
func lostConnection(why error) error {
	if ce := (*ConnectError)(nil); errors.As(why, &ce) {
		return ce // it would be no better next time
	}
	return fmt.Errorf("%w: %w", ErrDropped, why)
}

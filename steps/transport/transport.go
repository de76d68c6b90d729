// Package transport brings steps to a machine: in process for local and sandbox
// hosts, through the agent over SSH for others. Both sides run the same
// steps.Executor.
package transport

import (
	"context"
	"errors"
	"fmt"

	"nodejoin/steps"
	"nodejoin/steps/event"
)

// Conn is a connection to one machine. Calls are made one at a time.
//
// A connection that is lost in the middle of a call gives an error that matches
// ErrDropped; the caller connects anew and repeats the call, which is safe
// because every step begins with its check.
type Conn interface {
	Check(ctx context.Context, req steps.Request) (steps.CheckReply, error)
	// Apply emits the events of the steps as they happen.
	Apply(ctx context.Context, req steps.Request, emit func(event.Event)) (steps.ApplyReply, error)
	// Stage brings an artifact of the controller (src.File) to the machine, where
	// Artifacts.Open finds it by digest; staged already is no error and costs no
	// transfer. A file whose bytes have another digest is a *host.DigestError.
	Stage(ctx context.Context, src steps.Source, progress func(done, total int64)) error
	// TakeBack makes the machine as it was before its open trial.
	TakeBack(ctx context.Context, req steps.TakeBackRequest, emit func(event.Event)) (steps.TakeBackReply, error)
	// Verified ends the open trial of the machine: nothing can be taken back any more.
	Verified(ctx context.Context) error
	// CheckLeave says what a leave would put back; nothing is changed.
	CheckLeave(ctx context.Context, req steps.LeaveRequest) (steps.LeaveReply, error)
	// Leave puts back what nodejoin made or altered, but for its own folder.
	Leave(ctx context.Context, req steps.LeaveRequest, emit func(event.Event)) (steps.LeaveReply, error)
	// Forget removes nodejoin's own folder and what the transport itself put onto the
	// machine, after a Leave. The connection is of no use any more.
	Forget(ctx context.Context, req steps.LeaveRequest) (steps.ForgetReply, error)
	// Lock keeps other runs off the machine until Unlock or the end of the connection.
	// That another run has it is a reply; an error means that nobody knows.
	Lock(ctx context.Context, req steps.LockRequest) (steps.LockReply, error)
	Unlock(ctx context.Context) error
	// Note adds what a run did to the notes of the machine.
	Note(ctx context.Context, n steps.RunNote) error
	// Gather looks at the machine for a bug report; nothing is changed.
	Gather(ctx context.Context, req steps.GatherRequest) (steps.GatherReply, error)
	// Examine looks for what is wrong with a machine that has joined; nothing is changed.
	Examine(ctx context.Context, req steps.ExamineRequest) (steps.ExamineReply, error)
	Close() error
}

// ErrDropped: the connection was lost.
var ErrDropped = errors.New("the connection was lost")

// ConnectError: a machine could not be reached or did not let us in. Exit code 4.
type ConnectError struct {
	Reason  Reason
	Host    string // "Administrator@10.0.0.21:22"
	Summary string // "unknown host key"
	Detail  string
	Remedy  string
	Err     error
}

func (e *ConnectError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Host, e.Summary, e.Detail) }
func (e *ConnectError) Unwrap() error { return e.Err }

// Reason says which part of connecting failed.
type Reason string

const (
	ReasonUnreachable Reason = "unreachable"
	ReasonHostKey     Reason = "host_key"     // another key than the known one
	ReasonUnknownHost Reason = "unknown_host" // no key is known
	ReasonAuth        Reason = "auth"         // the login was refused
	ReasonKey         Reason = "key"          // a key file cannot be read or opened
	ReasonAgent       Reason = "agent"        // the agent could not be pushed or started
)

// Package transport brings steps to a machine: in process for local and sandbox
// hosts, through the agent over SSH or WinRM for others. Both sides run the same
// steps.Executor.
package transport

import (
	"context"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// Conn is a connection to one machine. Calls are made one at a time.
//
// A connection that is lost in the middle of a call gives an error that matches
// ErrDropped; the caller connects again and repeats the call, which is safe
// because every step begins with its check.
type Conn interface {
	// Do makes a call to the machine's executor and sets the reply of m. emit receives
	// the events of a call that changes the machine; nil drops them.
	Do(ctx context.Context, m wire.Message, emit func(event.Event)) error
	// Stage brings an artifact of the controller to the machine, where
	// Artifacts.Open finds it by digest; one that is there already costs no transfer.
	Stage(ctx context.Context, c *Content, progress func(done, total int64)) error
	// Lock keeps other runs off the machine until Unlock or the end of the connection.
	// That another run has it is a reply; an error means that it is not known.
	Lock(ctx context.Context, req steps.LockRequest) (steps.LockReply, error)
	Unlock(ctx context.Context) error
	// Forget removes nodejoin's own folder and what the transport itself put onto the
	// machine, after a Leave. The connection cannot be used afterwards.
	Forget(ctx context.Context, req executor.LeaveRequest) (executor.ForgetReply, error)
	// Address is the machine's own address as far as the controller knows it: "" = it does not. f is what the
	// machine says, which counts only where this process is the machine.
	Address(f host.Facts) string
	Close() error
}

// Do makes a call over a connection, see Conn.Do. The reply was checked against the request, and its text is
// safe to print. An invalid answer is a *ConnectError.
func Do[Req, Reply any](
	ctx context.Context, c Conn, call wire.Call[Req, Reply], req Req, emit func(event.Event),
) (Reply, error) {
	m := call.With(req)
	err := c.Do(ctx, m, m.Admit(emit))
	m.Clean()
	if err == nil {
		err = untrusted(call.Method, m.Verify())
	}
	return m.Answer, cleaned(err)
}

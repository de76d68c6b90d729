package wire

import (
	"context"

	"nodejoin/steps"
)

// Call is a request that the executor of a machine answers, in this process or in the
// agent. A new one is declared here, named in Calls, and made with transport.Do.
type Call[Req, Reply any] struct {
	Method string
	// ReadOnly: it changes nothing, so it may be sent before the agent is known to run,
	// and sent again. Any other call waits until no other run works on the machine.
	ReadOnly bool
	Run      func(x *steps.Executor, ctx context.Context, req Req) (Reply, error)
}

// The calls.
var (
	Check = Call[steps.Request, steps.CheckReply]{"check", true, (*steps.Executor).Check}
	// Apply emits the events of the steps as they happen.
	Apply = Call[steps.Request, steps.ApplyReply]{"apply", false, (*steps.Executor).Apply}
	// Rollback makes the machine as it was before its open snapshot.
	Rollback = Call[steps.RollbackRequest, steps.RollbackReply]{"rollback", false, (*steps.Executor).Rollback}
	// Verified closes the snapshot of the machine: nothing can be rolled back any more.
	Verified = Call[None, None]{"verified", false, func(x *steps.Executor, ctx context.Context, _ None) (None, error) {
		return None{}, x.Verified(ctx)
	}}
	// CheckLeave reports what a leave would undo.
	CheckLeave = Call[steps.LeaveRequest, steps.LeaveReply]{"leave_check", true, (*steps.Executor).CheckLeave}
	// Leave undoes what nodejoin made or altered, except for its own folder.
	Leave = Call[steps.LeaveRequest, steps.LeaveReply]{"leave", false, (*steps.Executor).Leave}
	// Note adds what a run did to the notes of the machine.
	Note = Call[steps.RunNote, None]{"note", false, func(x *steps.Executor, ctx context.Context, n steps.RunNote) (None, error) {
		return None{}, x.Note(ctx, n)
	}}
	// Collect reads what a bug report needs of the machine.
	Collect = Call[steps.GatherRequest, steps.GatherReply]{"collect", true, (*steps.Executor).Gather}
	// Diagnose looks for what is wrong with a machine that has joined.
	Diagnose = Call[steps.ExamineRequest, steps.ExamineReply]{"diagnose", true, (*steps.Executor).Examine}
)

// Calls are all of them.
var Calls = []interface{ Empty() Message }{
	Check, Apply, Rollback, Verified, CheckLeave, Leave, Note, Collect, Diagnose,
}

// None is a request or a reply without content.
type None struct{}

// Message is one call with its request and, once it was made, its reply.
type Message interface {
	Method() string
	ReadOnly() bool
	Request() any // a pointer
	Reply() any   // a pointer
	// Run has the executor answer; it sets the reply.
	Run(ctx context.Context, x *steps.Executor) error
}

// With is the message of a call.
func (c Call[Req, Reply]) With(req Req) *Made[Req, Reply] {
	return &Made[Req, Reply]{call: c, request: req}
}

// Empty is a message whose request is to be decoded.
func (c Call[Req, Reply]) Empty() Message { return &Made[Req, Reply]{call: c} }

// Made is a Message with its types.
type Made[Req, Reply any] struct {
	call    Call[Req, Reply]
	request Req
	Answer  Reply
}

// Method is that of the call.
func (m *Made[Req, Reply]) Method() string { return m.call.Method }

// ReadOnly is that of the call.
func (m *Made[Req, Reply]) ReadOnly() bool { return m.call.ReadOnly }

// Request is a pointer to what is asked.
func (m *Made[Req, Reply]) Request() any { return &m.request }

// Reply is a pointer to the answer.
func (m *Made[Req, Reply]) Reply() any { return &m.Answer }

// Run has the executor answer; it sets the reply.
func (m *Made[Req, Reply]) Run(ctx context.Context, x *steps.Executor) (err error) {
	m.Answer, err = m.call.Run(x, ctx, m.request)
	return err
}

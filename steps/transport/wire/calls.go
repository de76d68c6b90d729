package wire

import (
	"context"

	"nodejoin/steps/collect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/executor"
)

// Call is a request that the executor of a machine answers, in this process or in the
// agent. A new one is declared here, named in Calls, and made with transport.Do.
type Call[Req, Reply any] struct {
	Method string
	// ReadOnly: it changes nothing, so it may be sent before the agent is known to run,
	// and sent again. Any other call waits until no other run works on the machine.
	ReadOnly bool
	Run      func(x *executor.Executor, ctx context.Context, req Req) (Reply, error)
}

// The calls.
var (
	Check = Call[executor.Request, executor.CheckReply]{"check", true, (*executor.Executor).Check}
	// Apply emits the events of the steps as they happen.
	Apply = Call[executor.Request, executor.ApplyReply]{"apply", false, (*executor.Executor).Apply}
	// Rollback makes the machine as it was before its open snapshot.
	Rollback = Call[executor.RollbackRequest, executor.RollbackReply]{"rollback", false, (*executor.Executor).Rollback}
	// Verified closes the snapshot of the machine: nothing can be rolled back any more.
	Verified = Call[None, None]{"verified", false, func(x *executor.Executor, ctx context.Context, _ None) (None, error) {
		return None{}, x.Verified(ctx)
	}}
	// CheckLeave reports what a leave would undo.
	CheckLeave = Call[executor.LeaveRequest, executor.LeaveReply]{"leave_check", true, (*executor.Executor).CheckLeave}
	// Leave undoes what nodejoin made or altered, except for its own folder.
	Leave = Call[executor.LeaveRequest, executor.LeaveReply]{"leave", false, (*executor.Executor).Leave}
	// Note adds what a run did to the notes of the machine.
	Note = Call[executor.RunNote, None]{"note", false,
		func(x *executor.Executor, ctx context.Context, n executor.RunNote) (None, error) {
			return None{}, x.Note(ctx, n)
		}}
	// Collect reads what a bug report needs of the machine.
	Collect = Call[collect.GatherRequest, collect.GatherReply]{"collect", true, collectParts}
	// Diagnose looks for what is wrong with a machine that has joined.
	Diagnose = Call[doctor.ExamineRequest, doctor.ExamineReply]{"diagnose", true, diagnoseNode}
)

// Calls are all of them.
var Calls = []interface{ Empty() Message }{
	Check, Apply, Rollback, Verified, CheckLeave, Leave, Note, Collect, Diagnose,
}

func collectParts(x *executor.Executor, ctx context.Context, req collect.GatherRequest) (collect.GatherReply, error) {
	return collect.Gather(ctx, x.Host(), req)
}

func diagnoseNode(x *executor.Executor, ctx context.Context, req doctor.ExamineRequest) (doctor.ExamineReply, error) {
	h, e, err := x.Machine(ctx, req.Node, "doctor")
	if err != nil {
		return doctor.ExamineReply{}, err
	}
	reply, err := doctor.Examine(ctx, h, e, req)
	reply.Mutations = x.Mutations()
	return reply, err
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
	Run(ctx context.Context, x *executor.Executor) error
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
func (m *Made[Req, Reply]) Run(ctx context.Context, x *executor.Executor) (err error) {
	m.Answer, err = m.call.Run(x, ctx, m.request)
	return err
}

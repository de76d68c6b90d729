package wire

import (
	"context"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hosttext"
)

// Call is a request that the executor of a machine answers, in this process or in the
// agent. A new one is declared here, named in Calls, and made with transport.Do.
type Call[Req, Reply any] struct {
	Method string
	// ReadOnly: it changes nothing, so it may be sent before the agent is known to run,
	// and sent again. Any other call waits until no other run works on the machine.
	ReadOnly bool
	Run      func(x *executor.Executor, ctx context.Context, req Req) (Reply, error)
	// Bound is what the reply to a request may take.
	Bound func(req Req) Bound
	// Verify says what of a reply is no answer to its request. Nothing of it is used then.
	Verify func(req Req, reply Reply) error
	// Private reports whether a request holds secrets, which only an agent gets that is known to be ours; nil = none
	// does.
	Private func(req Req) bool
	// Scope is whom the events of the call may be about.
	Scope func(req Req) Scope
}

// The calls.
var (
	Check = Call[executor.Request, executor.CheckReply]{
		Method: "check", ReadOnly: true, Run: (*executor.Executor).Check,
		Private: func(req executor.Request) bool { return holdsSecrets(req.Steps) || holdsTokens(req.Values) },
		Bound:   func(req executor.Request) Bound { return reading(len(req.Steps)) },
		Verify:  verifyCheck, Scope: scopeOfSteps,
	}
	// Apply emits the events of the steps as they happen.
	Apply = Call[executor.Request, executor.ApplyReply]{
		Method: "apply", Run: (*executor.Executor).Apply,
		Bound:  func(req executor.Request) Bound { return applying(req.Steps) },
		Verify: verifyApply, Scope: scopeOfSteps,
	}
	// Rollback makes the machine as it was before its open snapshot.
	Rollback = Call[executor.RollbackRequest, executor.RollbackReply]{
		Method: "rollback", Run: (*executor.Executor).Rollback,
		Bound:  func(executor.RollbackRequest) Bound { return undoing() },
		Verify: verifyRollback, Scope: func(req executor.RollbackRequest) Scope {
			return Scope{Node: req.Node, Kind: "rollback"}
		},
	}
	// Verified closes the snapshot of the machine: nothing can be rolled back any more.
	Verified = Call[None, None]{
		Method: "verified", Run: func(x *executor.Executor, ctx context.Context, _ None) (None, error) {
			return None{}, x.Verified(ctx)
		},
		Bound: func(None) Bound { return brief(within) },
	}
	// Remove undoes what the plan no longer names.
	Remove = Call[executor.RemoveRequest, executor.RemoveReply]{
		Method: "remove", Run: (*executor.Executor).Remove,
		Bound:  func(executor.RemoveRequest) Bound { return undoing() },
		Verify: verifyRemove,
		Scope:  func(req executor.RemoveRequest) Scope { return Scope{Node: req.Node, Kind: "remove"} },
	}
	// CheckLeave reports what a leave would undo.
	CheckLeave = Call[executor.LeaveRequest, executor.LeaveReply]{
		Method: "leave_check", ReadOnly: true, Run: (*executor.Executor).CheckLeave,
		Bound: func(executor.LeaveRequest) Bound {
			b := undoing()
			b.Within, b.Silence = within, 0
			return b
		},
		Verify: verifyLeave, Scope: func(req executor.LeaveRequest) Scope { return Scope{Node: req.Node, Kind: "leave"} },
	}
	// Leave undoes what nodejoin made or altered, except for its own folder.
	Leave = Call[executor.LeaveRequest, executor.LeaveReply]{
		Method: "leave", Run: (*executor.Executor).Leave,
		Bound:  func(executor.LeaveRequest) Bound { return undoing() },
		Verify: verifyLeave, Scope: func(req executor.LeaveRequest) Scope { return Scope{Node: req.Node, Kind: "leave"} },
	}
	// Note adds what a run did to the notes of the machine.
	Note = Call[executor.RunNote, None]{
		Method: "note", Run: func(x *executor.Executor, ctx context.Context, n executor.RunNote) (None, error) {
			return None{}, x.Note(ctx, n)
		},
		Bound: func(executor.RunNote) Bound { return brief(time.Minute) },
	}
	// Collect reads what a bug report needs of the machine.
	Collect = Call[collect.CollectRequest, collect.CollectReply]{
		Method: "collect", ReadOnly: true, Run: collectParts,
		Private: func(req collect.CollectRequest) bool { return holdsSecrets(req.Steps) },
		Bound: func(req collect.CollectRequest) Bound {
			b := reading(len(req.Steps))
			b.Bytes = perReply
			return b
		},
		Verify: verifyCollect,
	}
	// Diagnose looks for what is wrong with a machine that has joined.
	Diagnose = Call[doctor.DiagnoseRequest, doctor.DiagnoseReply]{
		Method: "diagnose", ReadOnly: true, Run: diagnoseNode,
		Private: func(req doctor.DiagnoseRequest) bool { return holdsSecrets(req.Steps) },
		Bound:   func(req doctor.DiagnoseRequest) Bound { return reading(len(req.Steps)) },
		Verify:  verifyDiagnose,
	}
)

// Calls are all of them.
var Calls = []interface{ Empty() Message }{
	Check, Apply, Remove, Rollback, Verified, CheckLeave, Leave, Note, Collect, Diagnose, SelfTest,
}

// holdsSecrets reports whether the arguments of a step hold a secret that the plan gives.
func holdsSecrets(specs []steps.Spec) bool { return len(collect.Secrets(specs)) > 0 }

// holdsTokens reports whether one of the values is a token that a step of the cluster has minted.
func holdsTokens(values map[string]string) bool {
	for name := range values {
		if strings.HasSuffix(name, ".token") {
			return true
		}
	}
	return false
}

func collectParts(x *executor.Executor, ctx context.Context, req collect.CollectRequest) (collect.CollectReply,
	error) {
	return collect.Collect(ctx, x.Host(), req)
}

func diagnoseNode(x *executor.Executor, ctx context.Context, req doctor.DiagnoseRequest) (doctor.DiagnoseReply,
	error) {
	h, e, err := x.Machine(ctx, req.Node, "doctor")
	if err != nil {
		return doctor.DiagnoseReply{}, err
	}
	reply, err := doctor.Diagnose(ctx, h, e, req)
	reply.Mutations = x.Mutations()
	return reply, err
}

// None is a request or a reply without content.
type None struct{}

// Message is one call with its request and, once it was made, its reply.
type Message interface {
	Method() string
	ReadOnly() bool
	Bound() Bound
	Private() bool
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

// Bound is that of the request.
func (m *Made[Req, Reply]) Bound() Bound { return m.call.Bound(m.request) }

// Private reports whether the request holds secrets.
func (m *Made[Req, Reply]) Private() bool { return m.call.Private != nil && m.call.Private(m.request) }

// Request is a pointer to what is asked.
func (m *Made[Req, Reply]) Request() any { return &m.request }

// Reply is a pointer to the answer.
func (m *Made[Req, Reply]) Reply() any { return &m.Answer }

// Run has the executor answer; it sets the reply.
func (m *Made[Req, Reply]) Run(ctx context.Context, x *executor.Executor) (err error) {
	m.Answer, err = m.call.Run(x, ctx, m.request)
	return err
}

// Clean makes the text of the answer safe to print.
func (m *Made[Req, Reply]) Clean() { hosttext.Strings(&m.Answer) }

// Verify checks the answer, after Clean, against the request. On an error the answer is empty.
func (m *Made[Req, Reply]) Verify() error {
	if m.call.Verify == nil {
		return nil
	}
	err := m.call.Verify(m.request, m.Answer)
	if err != nil {
		var none Reply
		m.Answer = none
	}
	return err
}

// Admit returns a function that passes on the events that belong to the call, with its host. nil drops all
// events.
func (m *Made[Req, Reply]) Admit(emit func(event.Event)) func(event.Event) {
	if emit == nil || m.call.Scope == nil {
		return nil
	}
	return m.call.Scope(m.request).admit(emit)
}

package wire

import (
	"context"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/executor"
)

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
	Note = Call[executor.NoteRequest, None]{
		Method: "note", Run: func(x *executor.Executor, ctx context.Context, req executor.NoteRequest) (None, error) {
			return None{}, x.Note(ctx, req.RunNote)
		},
		Bound: func(executor.NoteRequest) Bound { return brief(time.Minute) },
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
	Check, Apply, Remove, Rollback, Verified, CheckLeave, Leave, Note, Collect, Diagnose, SelfTest, Pause, Generalize,
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

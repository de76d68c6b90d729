package executor

import (
	"context"
	"maps"

	"nodejoin/steps"
)

// ApplyReply is the answer to an apply. Failed is the step that ended it, if any.
type ApplyReply struct {
	Values    map[string]string `json:"values,omitempty"`    // outputs of the steps, "step.output"
	Sensitive []string          `json:"sensitive,omitempty"` // names of those values never to be shown
	Changed   []string          `json:"changed,omitempty"`
	Unchanged []string          `json:"unchanged,omitempty"`
	Failed    string            `json:"failed,omitempty"`
	Err       *steps.Error      `json:"err,omitempty"`
	Mutations int64             `json:"mutations"`
	Lock      *steps.LockReply  `json:"lock,omitempty"`  // answers Request.Lock
	Noted     bool              `json:"noted,omitempty"` // as Request.Note asked, and the lock is released
}

// Apply takes the steps in order; each is checked, applied where it differs, and
// checked again. It stops at the first failure.
func (x *Executor) Apply(ctx context.Context, req Request) (ApplyReply, error) {
	defer x.forget()
	ctx = steps.WithLogins(ctx, req.Logins)
	if err := x.prepareFor(ctx, req.Plan); err != nil {
		return ApplyReply{}, err
	}
	values := steps.FactValues(x.facts)
	maps.Copy(values, req.Values)
	reply := ApplyReply{Values: map[string]string{}}
	if err := x.begin(req); err != nil {
		return ApplyReply{}, err
	}
	if err := x.removeLeftover(ctx); err != nil {
		return ApplyReply{}, err
	}
	ahead := 0 // the steps before this index are claimed
	for i, s := range req.Steps {
		if reply.Err = x.halted(ctx, req); reply.Err != nil {
			reply.Failed, reply.Err = s.ID, x.saveDue(ctx, reply.Err)
			break
		}
		if i >= ahead {
			ahead = i + x.claimAhead(ctx, req, req.Steps[i:], values)
		}
		x.claimAgain(ctx, s)
		e := x.env(req.Node, s.ID)
		e.Plan = req.Plan
		e.WasOpen = req.Plan != "" && x.wasOpen(s, values)
		r := Run(ctx, req.Node, s, values, e, x.emit, Target{Kinds: x.kinds, Host: x.host})
		x.ran(ctx, s)
		x.remember(ctx, req, s, values, &r)
		if i == ahead-1 {
			x.endAhead(ctx)
		}
		if r.Err != nil || x.gate(s) || !x.changesNext(req.Steps[i+1:]) {
			r.Err = x.saveDue(ctx, r.Err)
		}
		for k, v := range r.Outputs {
			values[s.ID+"."+k], reply.Values[s.ID+"."+k] = v, v
		}
		reply.Sensitive = append(reply.Sensitive, r.Sensitive...)
		if r.Err != nil {
			reply.Failed, reply.Err = s.ID, r.Err
			break
		}
		if r.Changed {
			reply.Changed = append(reply.Changed, s.ID)
		} else {
			reply.Unchanged = append(reply.Unchanged, s.ID)
		}
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

// remember notes in the record what a step's run means, with one save before the next change: stamps and fingerprints
// survive an interruption.
func (x *Executor) remember(ctx context.Context, req Request, s steps.Spec, values map[string]string, r *RunResult) {
	gate, before := x.gateOf(s, values), x.record.Gates[s.ID]
	noted := r.Err == nil && x.note(s, values)
	opened := r.Err == nil && x.noteOpen(s, values, req.Plan)
	// A gate that opened by itself while it was waited for has restarted nothing.
	if r.Changed && gate != nil && (gate.PID == 0 || gate.PID != before.PID) {
		list := x.whole
		if list == nil {
			list = req.Steps
		}
		x.restarted(list, s.ID)
		x.renewGates(before.PID, gate.PID)
	}
	if r.Changed {
		x.noteStates(ctx, s, values, r.Err == nil)
	}
	if r.Changed = r.Changed || noted; !r.Changed && !opened {
		return
	}
	x.saveLate(ctx)
}

// saveDue saves the record if that is due. It returns the error that there is already, else that of the save, which
// ends the request. The next one, such as the rollback that makes room on a full disk, need not wait for it.
func (x *Executor) saveDue(ctx context.Context, already *steps.Error) *steps.Error {
	x.endAhead(ctx)
	err := x.late.save()
	x.late.due = nil
	if err != nil && already == nil {
		return steps.AsError(err)
	}
	return already
}

// changesNext reports whether the first of the steps changes something at once; false for one that may wait for
// minutes.
func (x *Executor) changesNext(list []steps.Spec) bool {
	if len(list) == 0 {
		return false
	}
	kind, _ := x.kinds.Lookup(list[0].Kind)
	return !kind.Waits && !x.gate(list[0])
}

// gate reports whether a step restarts what runs before it opens.
func (x *Executor) gate(s steps.Spec) bool {
	kind, _ := x.kinds.Lookup(s.Kind)
	return kind.Gate != nil
}

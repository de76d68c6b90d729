package executor

import (
	"context"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// CheckReply is the answer to a check: one Result a step, in order.
type CheckReply struct {
	Facts     host.Facts     `json:"facts"`
	Results   []steps.Result `json:"results"`
	Mutations int64          `json:"mutations"` // mutating host calls so far on this connection
	// Last is the note of the last run that changed the machine; nil = there is none or, with LastUnknown,
	// the notes could not be read.
	Last        *RunNote `json:"last,omitempty"`
	LastUnknown bool     `json:"last_unknown,omitempty"`
	// Untouched: nodejoin has nothing on the machine. It was never joined, or has left.
	Untouched bool `json:"untouched,omitempty"`
	// Snapshot is on the machine: an earlier run neither verified nor rolled back its changes, or it rolled
	// them back and ended before it verified that the machine works.
	Snapshot *OpenSnapshot `json:"snapshot,omitempty"`
	// RanVersions are the versions of unpacked programs that an earlier run observed running, by the step
	// that unpacked them.
	RanVersions map[string]string `json:"ran_versions,omitempty"`
	// Removals is what the plan no longer names, of a request for the Whole plan.
	Removals Removals `json:"removals,omitzero"`
	// Guard is what the service of the node saw last; nil = it has seen nothing, or that cannot be read.
	Guard  *steps.GuardState `json:"guard,omitempty"`
	Paused *steps.GuardPause `json:"paused,omitempty"` // an operator paused the service; nil = nobody did
	// Credentials are those that the steps of a request of a Plan have on the machine, in the steps' order.
	Credentials []steps.Credential `json:"credentials,omitempty"`
}

// Check checks every step. It changes nothing.
func (x *Executor) Check(ctx context.Context, req Request) (CheckReply, error) {
	defer x.forget()
	if err := x.prepareFor(ctx, req.Plan); err != nil {
		return CheckReply{}, err
	}
	w := newPass(x.kinds, req, steps.FactValues(x.facts))
	reply := CheckReply{Facts: x.facts, Untouched: x.record.Empty(x.facts)}
	for _, s := range req.Steps {
		e := x.env(req.Node, s.ID)
		e.WasOpen = req.Plan != "" && x.wasOpen(s, w.values)
		reply.Results = append(reply.Results, w.check(ctx, s, func(step any, e *steps.Env) (steps.Change, error) {
			return step.(steps.HostStep).Check(ctx, x.host, e)
		}, e))
		r := &reply.Results[len(reply.Results)-1]
		w.note(r, x.noted(s, w.values))
		if r.Change.Action == steps.ActionRestart && x.gateOf(s, w.values) != nil {
			for _, name := range x.servicesAfter(req.Steps, s.ID) {
				w.pending[steps.Touch{Service: name}.Key(x.facts.OS)] = s.ID
			}
		}
	}
	if req.Whole {
		x.whole = req.Steps
		var err error
		if reply.Removals, err = x.checkRemovals(ctx, req, w.values); err != nil {
			return CheckReply{}, err
		}
	}
	notes, unread := Notes(ctx, x.host, x.facts)
	reply.LastUnknown = unread != nil
	if len(notes) > 0 {
		reply.Last = &notes[len(notes)-1]
	}
	x.onlyDrift(ctx, reply.Results)
	if req.Plan != "" {
		reply.Credentials = x.credentials(ctx, req.Steps, w.values)
	}
	reply.Guard, _ = GuardState(ctx, x.host, x.facts) // what the service itself says, its log has too
	reply.Paused, _ = Paused(ctx, x.host, x.facts)
	var err error
	if reply.Snapshot, err = openSnapshot(x.record.Snapshot); err != nil {
		return CheckReply{}, err
	}
	for id, u := range x.record.Archives {
		if u.Version != "" {
			if reply.RanVersions == nil {
				reply.RanVersions = map[string]string{}
			}
			reply.RanVersions[id] = u.Version
		}
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

// credentials reads those of the steps. What cannot be read has an error of its step, or no end that is known.
func (x *Executor) credentials(ctx context.Context, list []steps.Spec, values map[string]string) (
	out []steps.Credential) {
	for _, s := range list {
		o, err := x.open(s, values)
		if err != nil || o.kind.Credentials == nil {
			continue
		}
		if have, err := o.kind.Credentials(ctx, o.step, x.host, x.facts.OS); err == nil {
			out = append(out, have...)
		}
	}
	return out
}

// onlyDrift drops the times of what was written before the last run noted its end: a run
// wrote that, or saw it and left it. The note is a file of the same machine, so that one
// clock made both times. Without a note no time is given.
func (x *Executor) onlyDrift(ctx context.Context, results []steps.Result) {
	if !slices.ContainsFunc(results, func(r steps.Result) bool { return r.Change.Since != nil }) {
		return
	}
	note, err := x.host.Stat(ctx, NotesPath(x.facts))
	for i := range results {
		if c := &results[i].Change; c.Since != nil && (err != nil || !c.Since.After(note.ModTime)) {
			c.Since = nil
		}
	}
}

// Package executor runs steps on one machine, undoes what they made (leave), and rolls a failed change back.
package executor

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Executor runs the host steps of one node against its machine. It is the same
// code for a local host and inside the agent. Not safe for concurrent use.
type Executor struct {
	kinds     steps.Catalog
	host      host.Host
	artifacts steps.Artifacts
	emit      func(event.Event)
	mutations atomic.Int64
	facts     host.Facts
	record    *record.Record
	undos     steps.Undos
	whole     []steps.Spec // of the last check of a whole plan
}

// NewExecutor returns an executor for one machine. It calls emit from the caller's goroutine
// only; emit must not block for long.
func NewExecutor(kinds steps.Catalog, h host.Host, a steps.Artifacts, emit func(event.Event)) *Executor {
	x := &Executor{kinds: kinds, artifacts: a, emit: emit, undos: steps.UndosOf(kinds)}
	x.host = host.Intercept(h, func(op, subject string) error {
		x.mutations.Add(1)
		return nil
	})
	return x
}

// Request asks for a check or an apply of steps of one node, in their order.
type Request struct {
	Node  string       `json:"node"`
	Steps []steps.Spec `json:"steps"`
	// Values of references known to the controller: "cluster.ca", outputs of earlier steps.
	Values map[string]string `json:"values,omitempty"`
	// Snapshot: an apply or a removal opens a snapshot, unless one is open, so that what it changes can
	// be rolled back. It is what the Node is now.
	Snapshot *NodeBefore `json:"snapshot,omitempty"`
	// Plan is the name of the plan whose steps these are, for their claims; "" = none.
	Plan string `json:"plan,omitempty"`
	// Whole: the steps are all that the plan has for the machine, so that a check finds what
	// the plan no longer names.
	Whole bool `json:"whole,omitempty"`
	// PruneChanged: what the plan no longer names goes even if it was changed since.
	PruneChanged bool `json:"prune_changed,omitempty"`
}

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
}

// ApplyReply is the answer to an apply. Failed is the step that ended it, if any.
type ApplyReply struct {
	Values    map[string]string `json:"values,omitempty"`    // outputs of the steps, "step.output"
	Sensitive []string          `json:"sensitive,omitempty"` // names of those values never to be shown
	Changed   []string          `json:"changed,omitempty"`
	Unchanged []string          `json:"unchanged,omitempty"`
	Failed    string            `json:"failed,omitempty"`
	Err       *steps.Error      `json:"err,omitempty"`
	Mutations int64             `json:"mutations"`
}

// Mutations counts the mutating host calls so far.
func (x *Executor) Mutations() int64 { return x.mutations.Load() }

func (x *Executor) prepare(ctx context.Context) error {
	if x.record != nil {
		return nil
	}
	f, err := x.host.Facts(ctx)
	if err != nil {
		return err
	}
	rec, err := record.Load(ctx, x.host, f)
	if err != nil {
		return err
	}
	x.facts, x.record = f, rec
	return nil
}

// Host is the machine; calls that change it are counted.
func (x *Executor) Host() host.Host { return x.host }

// Machine is Host with the Env that a step uses.
func (x *Executor) Machine(ctx context.Context, node, step string) (host.Host, *steps.Env, error) {
	if err := x.prepare(ctx); err != nil {
		return nil, nil, err
	}
	return x.host, x.env(node, step), nil
}

// Refresh reads the record again, once the machine is locked for the run: another run may
// have written it since this one looked. Digests of files stay, as each is held against
// its file anyway.
func (x *Executor) Refresh(ctx context.Context) error {
	if x.record == nil {
		return nil
	}
	rec, err := record.Load(ctx, x.host, x.facts)
	if err != nil {
		return err
	}
	maps.Copy(rec.Digests, x.record.Digests)
	x.record = rec
	return nil
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

// Check checks every step. It changes nothing.
func (x *Executor) Check(ctx context.Context, req Request) (CheckReply, error) {
	if err := x.prepare(ctx); err != nil {
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

func (x *Executor) env(node, id string) *steps.Env {
	return &steps.Env{Node: node, StepID: id, Facts: x.facts, Artifacts: x.artifacts, Record: x.record, Undos: x.undos,
		Progress: func(p event.StepProgress) { p.Host, p.Step = node, id; x.emit(p) }}
}

// Apply takes the steps in order; each is checked, applied where it differs, and
// checked again. It stops at the first failure.
func (x *Executor) Apply(ctx context.Context, req Request) (ApplyReply, error) {
	if err := x.prepare(ctx); err != nil {
		return ApplyReply{}, err
	}
	values := steps.FactValues(x.facts)
	maps.Copy(values, req.Values)
	reply := ApplyReply{Values: map[string]string{}}
	if err := x.begin(req); err != nil {
		return ApplyReply{}, err
	}
	for _, s := range req.Steps {
		e := x.env(req.Node, s.ID)
		e.Plan = req.Plan
		e.WasOpen = req.Plan != "" && x.wasOpen(s, values)
		r := Run(ctx, req.Node, s, values, e, x.emit, Target{Kinds: x.kinds, Host: x.host})
		x.remember(ctx, req, s, values, &r)
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

// begin opens the snapshot that a request asks for.
func (x *Executor) begin(req Request) error {
	if req.Snapshot == nil {
		return nil
	}
	node, err := json.Marshal(req.Snapshot)
	if err != nil {
		return err
	}
	x.record.Begin(node, time.Now())
	return nil
}

// remember notes in the record what a step's run means, with one save: stamps and
// fingerprints survive an interruption.
func (x *Executor) remember(ctx context.Context, req Request, s steps.Spec, values map[string]string, r *RunResult) {
	gate, before := x.gateOf(s, values), x.record.Gates[s.ID]
	noted := r.Err == nil && x.note(s, values)
	opened := r.Err == nil && x.noteOpen(s, values, req.Plan)
	if r.Changed && gate != nil {
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
	if err := x.record.Save(context.WithoutCancel(ctx), x.host, x.facts); err != nil && r.Err == nil {
		r.Err = steps.AsError(err)
	}
}

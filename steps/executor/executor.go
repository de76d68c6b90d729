// Package executor runs steps on one machine, undoes what they made (leave), and rolls a failed change back.
package executor

import (
	"context"
	"encoding/json"
	"maps"
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
	whole     []steps.Spec       // of the last check of a whole plan
	missing   []string           // folders above the record that were not there at first
	decoded   map[string]decoded // of the request, by the steps' ids
	tokens    steps.Tokens
	clock     func() time.Time
	overSSH   bool // of a leave: it came over SSH
	late      lateRecord
}

// decoded is a step whose arguments were decoded, for what only reads them.
type decoded struct {
	step any
	kind steps.Kind
	args steps.Args // with the references filled
}

// open decodes the arguments of a step, once as long as they are the same.
func (x *Executor) open(s steps.Spec, values map[string]string) (o decoded, err error) {
	s.Args = steps.ResolveArgs(s.Args, values)
	if o = x.decoded[s.ID]; o.kind.Name == s.Kind && o.args.Equal(s.Args) {
		return o, nil
	}
	o.args = s.Args
	if o.step, o.kind, err = x.kinds.Decode(s); err == nil {
		if x.decoded == nil {
			x.decoded = map[string]decoded{}
		}
		x.decoded[s.ID] = o
	}
	return o, err
}

// forget ends a request. The decoded steps of a thousand waiting machines would take much memory.
func (x *Executor) forget() { x.decoded = nil }

// NewExecutor returns an executor for one machine. It calls emit from the caller's goroutine
// only; emit must not block for long.
func NewExecutor(kinds steps.Catalog, h host.Host, a steps.Artifacts, emit func(event.Event)) *Executor {
	x := &Executor{kinds: kinds, artifacts: a, emit: emit, undos: steps.UndosOf(kinds)}
	x.host = host.Intercept(h, func(_, subject string) error {
		x.mutations.Add(1)
		return x.late.before(subject == record.Path(x.facts))
	})
	return x
}

// RenewTokens lets steps renew the tokens of the machine, whose lives are judged by clock; nil = time.Now.
func (x *Executor) RenewTokens(tokens steps.Tokens, clock func() time.Time) {
	x.tokens, x.clock = tokens, clock
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
	// Former are earlier names of the plan: claims of these are its own.
	Former []string `json:"former,omitempty"`
	// Whole: the steps are all that the plan has for the machine, so that a check finds what
	// the plan no longer names.
	Whole bool `json:"whole,omitempty"`
	// PruneChanged: what the plan no longer names goes even if it was changed since.
	PruneChanged bool `json:"prune_changed,omitempty"`
	// Pausable: an apply or a removal ends before its next step once the machine is paused.
	Pausable bool `json:"pausable,omitempty"`
	// Logins are those by which an apply fetches artifacts.
	Logins []steps.Login `json:"logins,omitempty"`
	// Lock: an apply takes the machine's lock first. It does nothing else where another run holds the lock, or where an
	// earlier one did not end; in the latter case the lock is held then.
	Lock *steps.LockRequest `json:"lock,omitempty"`
	// Note: the steps of an apply are the last of the run. If all are done, the run is noted, unless it has changed
	// nothing, and the lock is released. Ended is the time of the request, and Changed what was changed before it.
	Note *RunNote `json:"note,omitempty"`
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
	if len(rec.Claims) == 0 {
		// Seen before the lock of the run makes nodejoin's folder, with those above it.
		if x.missing, err = host.MissingParents(ctx, x.host, f.OS, record.Path(f)); err != nil {
			return err
		}
	}
	if err := rec.Withdraw(ctx, x.host); err != nil {
		return err
	}
	x.facts, x.record = f, rec
	return nil
}

// prepareFor is prepare for a run of the plan with this name. It refuses a machine of another environment.
func (x *Executor) prepareFor(ctx context.Context, plan string) error {
	if err := x.prepare(ctx); err != nil || plan == "" {
		return err
	}
	for _, key := range x.record.Active() {
		for _, mark := range x.record.Claims[key].Plans {
			if err := steps.OtherEnvironment("the machine", mark, plan); err != nil {
				return err
			}
		}
	}
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

// Refresh reads the record again, once the machine is locked for the run: another run may have written it
// since. Cached digests of files stay: each is checked against its file anyway.
func (x *Executor) Refresh(ctx context.Context) error {
	if x.record == nil {
		return nil
	}
	rec, err := record.Load(ctx, x.host, x.facts)
	if err != nil {
		return err
	}
	maps.Copy(rec.Digests, x.record.Digests)
	if err := rec.Withdraw(ctx, x.host); err != nil {
		return err
	}
	x.record, x.late.due = rec, nil
	return nil
}

func (x *Executor) env(node, id string) *steps.Env {
	return &steps.Env{Node: node, StepID: id, Facts: x.facts, Artifacts: x.artifacts, Record: x.record, Undos: x.undos,
		OverSSH: x.overSSH, Missing: x.missing, Tokens: x.tokens, Clock: x.clock,
		Progress: func(p event.StepProgress) { p.Host, p.Step = node, id; x.emit(p) }}
}

// saveLate has the record saved before the next change, also once the run is interrupted.
func (x *Executor) saveLate(ctx context.Context) {
	x.late.due = func() error { return x.record.Save(context.WithoutCancel(ctx), x.host, x.facts) }
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

// NodeBefore is what the Node was before the first change of a snapshot.
type NodeBefore struct {
	UID     string `json:"uid,omitempty"`     // "" = there was no Node
	Ready   bool   `json:"ready,omitempty"`   // it was Ready
	Version string `json:"version,omitempty"` // of its kubelet
	// Given is what it had of labels and taints; nil = there was no Node.
	Given *steps.NodeGiven `json:"given,omitempty"`
}

// Package executor runs steps on one machine, undoes what they made (leave), and rolls a failed change back.
package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
	"nodejoin/steps/wait"
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
	// Snapshot: an apply opens a snapshot, unless one is open, so that what it changes can
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
		if r.Change.Action == steps.ActionRestart && x.gateOf(s, w.values) != "" {
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
	if req.Snapshot != nil {
		node, err := json.Marshal(req.Snapshot)
		if err != nil {
			return ApplyReply{}, err
		}
		x.record.Begin(node, time.Now())
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

// remember notes in the record what a step's run means, with one save: stamps and
// fingerprints survive an interruption.
func (x *Executor) remember(ctx context.Context, req Request, s steps.Spec, values map[string]string, r *RunResult) {
	gate := x.gateOf(s, values) != ""
	noted := r.Err == nil && x.note(s, values)
	opened := r.Err == nil && req.Plan != "" && x.noteOpen(s, values)
	if r.Changed && gate {
		list := x.whole
		if list == nil {
			list = req.Steps
		}
		x.restarted(list, s.ID)
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

// Target is where a step runs: on a host or on a cluster.
type Target struct {
	Kinds steps.Catalog
	Host  host.Host
	Kube  kube.API
}

// RunResult is the result of one step's run.
type RunResult struct {
	Changed   bool
	Outputs   map[string]string
	Sensitive []string // full names, "step.output"
	Err       *steps.Error
}

// Run checks one step, applies it where it differs, and verifies. It emits
// StepStarted and StepDone, and never panics.
func Run(
	ctx context.Context, node string, s steps.Spec, values map[string]string, e *steps.Env, emit func(event.Event),
	t Target,
) RunResult {
	r := &stepRun{spec: s, node: node, values: values, env: e, emit: emit, on: t, action: steps.ActionNone,
		start: time.Now()}
	var err error
	if r.step, r.kind, err = t.Kinds.Open(s, values); err != nil {
		return r.done(0, err)
	}
	timeout := cmp.Or(s.Timeout, r.kind.Timeout, steps.DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		&steps.Error{Code: steps.CodeTimeout, Summary: "not done in time",
			Detail: fmt.Sprintf("%s took longer than %s", s.ID, timeout)})
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := r.try(ctx)
		if err == nil {
			return r.done(attempt, nil)
		}
		if ctx.Err() != nil {
			err = causeOr(ctx, err)
		}
		e := steps.AsError(err)
		final := e != nil && (e.Code == steps.CodeBlobMissing || e.Code == steps.CodeInvalid)
		if final || attempt > s.Retries || ctx.Err() != nil {
			return r.done(attempt, err)
		}
		note := fmt.Sprintf("try %d of %d failed: %v", attempt, s.Retries+1, err)
		emit(event.StepProgress{Host: node, Step: s.ID, Note: note})
		_ = wait.Pause(ctx, time.Duration(attempt)*time.Second) // the next try sees the end of ctx
	}
}

// stepRun is one step while it runs.
type stepRun struct {
	spec    steps.Spec
	kind    steps.Kind
	step    any // a HostStep or a ClusterStep
	node    string
	values  map[string]string
	env     *steps.Env
	emit    func(event.Event)
	on      Target
	start   time.Time
	started bool         // StepStarted was emitted
	action  steps.Action // of the last check that found something to do
	res     RunResult
}

// try checks the step, applies it where it differs, and checks again.
func (r *stepRun) try(ctx context.Context) error {
	r.env.Applied = nil
	c, err := r.check(ctx)
	if err != nil {
		return err
	}
	if c.NoOp() {
		r.res.Outputs = c.Outputs
		return nil
	}
	// A step without changes does not need the value of a step that was not run.
	if refs := Unresolved(r.spec.Args, r.values); len(refs) > 0 {
		return unknownValue(r.spec.ID, refs)
	}
	r.begin(c)
	if r.on.Host != nil && len(c.Touches) > 0 {
		if err := r.env.Distrust(ctx, r.on.Host, c.Touches); err != nil {
			return err
		}
	}
	o, err := r.apply(ctx, c)
	if err != nil || r.kind.Reboots {
		return err
	}
	r.env.Applied = o.Outputs
	after, err := r.check(ctx)
	if err != nil {
		return err
	}
	if !after.NoOp() {
		return notConverged(r.spec, after)
	}
	r.res.Outputs = map[string]string{}
	maps.Copy(r.res.Outputs, after.Outputs)
	maps.Copy(r.res.Outputs, o.Outputs)
	for _, n := range o.Sensitive {
		r.res.Sensitive = append(r.res.Sensitive, r.spec.ID+"."+n)
	}
	return nil
}

// unknownValue is the error of a step that needs a value that no step has given.
func unknownValue(id string, refs []string) error {
	if slices.ContainsFunc(refs, func(r string) bool { return strings.HasPrefix(r, "reached.") }) {
		return &steps.Error{Code: steps.CodeInvalid, Summary: "the machine's address is not known",
			Detail: id +
				" makes others trust the machine, so that it takes no address or name that only the machine itself says; " +
				"the connection does not show which address is its own",
			Remedy: "give the node its management_ip in the plan, then apply again, which continues from here"}
	}
	return &steps.Error{Code: steps.CodeInvalid, Summary: "value not known",
		Detail: fmt.Sprintf("%s needs %v, which no earlier step has given", id, refs)}
}

// begin emits once that the step starts, and counts it as changed before it changes anything: a failed
// apply may have changed a part.
func (r *stepRun) begin(c steps.Change) {
	r.action = c.Action
	r.res.Changed = c.Action != steps.ActionWait
	if r.started {
		return
	}
	r.started = true
	r.emit(event.StepStarted{Host: r.node, Step: r.spec.ID, Kind: r.spec.Kind, Action: string(c.Action),
		Title: r.spec.Title, Reason: c.Reason})
}

func (r *stepRun) check(ctx context.Context) (c steps.Change, err error) {
	defer recoverInto(&err)
	if h, ok := r.step.(steps.HostStep); ok && r.on.Host != nil {
		return h.Check(ctx, r.on.Host, r.env)
	}
	if k, ok := r.step.(steps.ClusterStep); ok && r.on.Kube != nil {
		return k.Check(ctx, r.on.Kube, r.env)
	}
	return c, fmt.Errorf("kind %q cannot run here", r.spec.Kind)
}

func (r *stepRun) apply(ctx context.Context, c steps.Change) (o steps.Outcome, err error) {
	defer recoverInto(&err)
	if h, ok := r.step.(steps.HostStep); ok {
		return h.Apply(ctx, r.on.Host, r.env, c)
	}
	return r.step.(steps.ClusterStep).Apply(ctx, r.on.Kube, r.env, c)
}

// done emits the end of the step.
func (r *stepRun) done(attempt int, err error) RunResult {
	r.res.Err = steps.AsError(err)
	d := event.StepDone{Host: r.node, Step: r.spec.ID, Result: "unchanged", Action: string(r.action),
		Duration: time.Since(r.start), Source: r.spec.Source, Attempt: attempt}
	if r.res.Changed {
		d.Result = "changed"
	}
	r.emit(steps.Done(d, err))
	return r.res
}

// causeOr prefers a step's own error about a wait over the bare timeout.
func causeOr(ctx context.Context, err error) error {
	var se *steps.Error
	if errors.As(err, &se) && se.Code == steps.CodeTimeout {
		return err
	}
	cause := context.Cause(ctx)
	if errors.As(cause, &se) {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return &steps.Error{Code: se.Code, Summary: se.Summary, Detail: se.Detail + "; last: " + err.Error()}
		}
		return cause
	}
	return steps.Interrupted("apply")
}

func notConverged(s steps.Spec, c steps.Change) error {
	detail := fmt.Sprintf("%s was applied, but a check still finds: %s", s.ID, c.Action)
	if c.Reason != "" {
		detail += " (" + c.Reason + ")"
	}
	for _, d := range c.Diffs {
		if d.Sensitive || d.Text {
			detail += "; " + d.Name + " differs"
		} else {
			detail += fmt.Sprintf("; %s is %q, wanted %q", d.Name, d.Have, d.Want)
		}
	}
	return &steps.Error{Code: steps.CodeNotConverged, Summary: "did not converge", Detail: detail,
		Remedy: "something else on the machine changes it back, or the machine took the change and did not keep it"}
}

func recoverInto(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
	}
}

// Unresolved are the references in arguments of which no value is known.
func Unresolved(args []byte, values map[string]string) []string {
	return slices.DeleteFunc(steps.ArgRefs(args), func(r string) bool { _, ok := values[r]; return ok })
}

// checkTimeout bounds the read-only check of one step: the longest reads a node's largest program once, a
// few hundred MB.
const checkTimeout = 2 * time.Minute

// pass carries the results of earlier checks of one pass to later ones.
type pass struct {
	kinds   steps.Catalog
	values  map[string]string
	pending map[steps.Touch]string // see Env
	future  map[steps.Touch]string
	changed map[string]bool // steps with something to do
}

func newPass(kinds steps.Catalog, req Request, facts map[string]string) *pass {
	w := &pass{kinds: kinds, values: facts, pending: map[steps.Touch]string{}, future: map[steps.Touch]string{},
		changed: map[string]bool{}}
	maps.Copy(w.values, req.Values)
	return w
}

// check runs one read-only check with the knowledge of the pass and adds to it.
func (w *pass) check(ctx context.Context, s steps.Spec, f func(step any, e *steps.Env) (steps.Change, error),
	e *steps.Env) (r steps.Result) {
	r.ID = s.ID
	if s.OnlyIf != "" && !w.changed[s.OnlyIf] {
		return r
	}
	step, _, err := w.kinds.Open(s, w.values)
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout,
		&steps.Error{Code: steps.CodeTimeout, Summary: "the check was not done in time",
			Detail: fmt.Sprintf("looking at %s took longer than %s", s.ID, checkTimeout),
			Remedy: "something on the machine or the way to the cluster hangs; look at it and try again"})
	defer cancel()
	if err == nil {
		e.Pending, e.Future = w.pending, w.future
		err = func() (err error) {
			defer recoverInto(&err)
			r.Change, err = f(step, e)
			return err
		}()
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = causeOr(ctx, err)
		}
		r.Err = steps.AsError(err)
		w.changed[s.ID] = true
		return r
	}
	if !r.Change.NoOp() {
		r.Change.Unknown = Unresolved(s.Args, w.values)
		for i := range r.Change.Diffs {
			d := &r.Change.Diffs[i]
			d.Have, d.Want = steps.ShowRefs(d.Have), steps.ShowRefs(d.Want)
		}
		r.Change.Reason = steps.ShowRefs(r.Change.Reason)
		w.changed[s.ID] = true
		for _, t := range r.Change.Touches {
			w.pending[t.Key(e.Facts.OS)] = s.ID
		}
		for p, d := range r.Change.Digests {
			w.future[steps.Touch{Path: p}.Key(e.Facts.OS)] = d
		}
	}
	for k, v := range r.Change.Outputs {
		w.values[s.ID+"."+k] = v
	}
	return r
}

// CheckCluster runs read-only checks of cluster steps with the same rules as
// Executor.Check; values must hold the outputs known so far and is added to.
func CheckCluster(ctx context.Context, kinds steps.Catalog, node string, specs []steps.Spec, values map[string]string,
	changed map[string]bool, r kube.Reader) []steps.Result {
	w := &pass{kinds: kinds, values: values, pending: map[steps.Touch]string{}, future: map[steps.Touch]string{},
		changed: changed}
	var out []steps.Result
	for _, s := range specs {
		out = append(out, w.check(ctx, s, func(step any, e *steps.Env) (steps.Change, error) {
			return step.(steps.ClusterStep).Check(ctx, r, e)
		}, &steps.Env{Node: node, StepID: s.ID, Progress: func(event.StepProgress) {}}))
	}
	return out
}

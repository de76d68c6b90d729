package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

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
func Unresolved(args steps.Args, values map[string]string) []string {
	return slices.DeleteFunc(steps.ArgRefs(args), func(r string) bool { _, ok := values[r]; return ok })
}

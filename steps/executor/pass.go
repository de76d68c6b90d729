package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

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
func CheckCluster(ctx context.Context, kinds steps.Catalog, plan, node string, specs []steps.Spec,
	values map[string]string, changed map[string]bool, r kube.Reader, former ...string) []steps.Result {
	w := &pass{kinds: kinds, values: values, pending: map[steps.Touch]string{}, future: map[steps.Touch]string{},
		changed: changed}
	var out []steps.Result
	for _, s := range specs {
		out = append(out, w.check(ctx, s, func(step any, e *steps.Env) (steps.Change, error) {
			return step.(steps.ClusterStep).Check(ctx, r, e)
		}, &steps.Env{Node: node, StepID: s.ID, Plan: plan, Former: former, Keep: s.Keep,
			Progress: func(event.StepProgress) {}}))
	}
	return out
}

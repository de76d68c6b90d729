package engine

import (
	"context"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
)

// Apply makes every host as the plan wants it. Check must have run. A host that
// fails does not stop the others. Those whose Nodes are taken out of service are changed
// as the plan's rollout allows.
func (s *Session) Apply(ctx context.Context) *Summary {
	start := time.Now()
	sum := &Summary{Hosts: make([]HostSummary, len(s.hosts))}
	letGo, err := s.holdCluster(ctx)
	defer letGo()
	if err == nil {
		err = s.noteNames(ctx)
	}
	s.roll(ctx, sum, func(ctx context.Context, h *hostRun) HostSummary {
		if err != nil && h.report.Err == nil {
			h.report.Err = err
		}
		defer h.release()
		done := h.apply(ctx)
		if s.opt.Done != nil {
			s.opt.Done(done)
		}
		return done
	})
	if err == nil {
		s.removeObjects(ctx, sum)
	}
	sum.Duration = time.Since(start)
	return sum
}

func (h *hostRun) apply(ctx context.Context) HostSummary {
	a := &hostApply{hostRun: h, sum: HostSummary{Node: h.node.Name}}
	if a.refused() {
		a.sum.NotRun = ids(h.node.Steps)
		return a.sum
	}
	h.state("applying", "")
	if a.sum.Err = a.hold(ctx); a.sum.Err == nil {
		defer h.letGo(ctx)
		a.sum.Err = h.finishRollback(ctx)
	}
	if a.sum.Err == nil {
		h.rollbackTo = h.nodeBefore()
		a.start = time.Now()
		defer func() { h.noteRun(ctx, a.sum, a.start) }()
		for _, part := range []func(context.Context){a.drainMoved, a.removeEarly, a.runSteps} {
			if a.sum.Err == nil {
				part(ctx)
			}
		}
		a.finish(ctx)
	}
	for _, spec := range h.node.Steps {
		ran := slices.Contains(a.sum.Changed, spec.ID) || slices.Contains(a.sum.Unchanged, spec.ID)
		if spec.ID != a.sum.Failed && !ran {
			a.sum.NotRun = append(a.sum.NotRun, spec.ID)
		}
	}
	if a.sum.Err != nil {
		h.state("failed", "")
	} else {
		h.state("done", "")
	}
	return a.sum
}

// refused reports whether the host is left as it is: it or a step of it could not be
// checked, or a condition does not hold. Nothing is changed on partial knowledge.
func (a *hostApply) refused() bool {
	if a.report.Err != nil {
		a.sum.Err = a.report.Err
		return true
	}
	for _, s := range a.report.Steps {
		if s.Result.Err != nil {
			a.failed(s.Spec, s.Result.Err)
			return true
		}
	}
	return false
}

// runSteps takes the steps in the plan's order, up to the first that fails.
func (a *hostApply) runSteps(ctx context.Context) {
	for rest := a.node.Steps; len(rest) > 0 && a.sum.Err == nil; {
		if ctx.Err() != nil {
			a.sum.Err = steps.Interrupted("apply")
			return
		}
		if a.sum.Err = a.halted(ctx); a.sum.Err != nil {
			return
		}
		if a.prepare(ctx, rest[0]); a.sum.Err != nil {
			return
		}
		n := 1
		switch k := kinds.Of(rest[0]); {
		case k.Place == steps.OnCluster:
			a.applyCluster(ctx, rest[0], &a.sum)
		case k.Reboots:
			a.applyReboot(ctx, rest[0], &a.sum)
		default:
			n = a.batchOf(rest)
			a.applyBatch(ctx, rest[:n], n == len(rest) && a.endsWithSteps())
		}
		rest = rest[n:]
	}
}

// prepare does what must come before a step and is not a step of the plan.
func (a *hostApply) prepare(ctx context.Context, next steps.Spec) {
	if a.stopsFirst(next.ID) {
		if err := a.drainNode(ctx); err != nil {
			a.failed(next, err)
			a.undrained = true
			return
		}
	}
	if names := a.displaced(next); len(names) > 0 {
		if a.remove(ctx, true, names...); a.sum.Err != nil {
			return
		}
	}
	if kinds.Of(next).Ends {
		// All is verified, and the Node takes pods from here on: it is no longer rolled back.
		if a.sum.Err = a.verified(ctx); a.sum.Err == nil {
			a.rollbackTo = nil
		}
	}
}

// batchOf counts the steps that go out in one call: the host steps up to one that needs
// something first. Conditions and folders come before the first long transfer.
func (a *hostApply) batchOf(rest []steps.Spec) int {
	blob := a.needsBlob(rest[0])
	for n := 1; n < len(rest); n++ {
		k := kinds.Of(rest[n])
		if k.Place == steps.OnCluster || k.Reboots || !blob && a.needsBlob(rest[n]) || a.stopsFirst(rest[n].ID) ||
			len(a.displaced(rest[n])) > 0 {
			return n
		}
	}
	return len(rest)
}

// finish ends the apply after its last step: verified and open to pods, or rolled back.
func (a *hostApply) finish(ctx context.Context) {
	switch {
	case a.sum.Err == nil && !needsCluster(a.node):
		a.sum.Err = a.verified(ctx)
	case a.sum.Err != nil && !a.undrained && a.rollsBack(ctx, &a.sum):
		if a.rollBack(ctx, &a.sum); a.sum.Rollback == nil || a.sum.Rollback.Err == nil {
			a.restoreMoved(ctx)
		}
	}
	if a.sum.Err == nil {
		a.removeLate(ctx)
	}
	if a.sum.Err == nil {
		a.sum.Err = a.uncordonNode(ctx)
	}
	if a.sum.Err == nil {
		a.removeMoved(ctx)
	}
	if a.sum.Err == nil && a.rebootLeft != nil {
		a.sum.Err = a.rebootLeft
	}
}

// applyCluster runs one step on the cluster's side.
func (h *hostRun) applyCluster(ctx context.Context, spec steps.Spec, sum *HostSummary) {
	if spec.OnlyIf != "" && !h.pending[spec.OnlyIf] {
		sum.Unchanged = append(sum.Unchanged, spec.ID)
		return
	}
	turn := h.shares(spec)
	turn.Lock()
	defer turn.Unlock()
	if outputs, _ := turn.value.(map[string]string); turn.done { // this run has made it, or seen that it is there
		h.keep(spec, outputs)
		sum.Unchanged = append(sum.Unchanged, spec.ID)
		h.emit(event.StepDone{Host: h.node.Name, Step: spec.ID, Result: "unchanged"})
		return
	}
	if kinds.Of(spec).Objects != nil && h.pending[spec.ID] {
		if err := h.joinSet(ctx); err != nil {
			sum.Failed, sum.Source, sum.Err = spec.ID, spec.Source, err
			return
		}
	}
	e := &steps.Env{Node: h.node.Name, StepID: spec.ID, Plan: h.planName(), Former: h.names, Keep: spec.Keep,
		Kubelet: new(string)}
	if n := h.report.KubeNode; n != nil {
		*e.Kubelet = n.KubeletVersion
	}
	e.Progress = func(p event.StepProgress) { p.Host, p.Step = h.node.Name, spec.ID; h.emit(p) }
	r := executor.Run(ctx, h.node.Name, spec, h.values, e, h.emit, executor.Target{Kinds: kinds.Catalog(), Kube: h.api})
	h.keep(spec, r.Outputs)
	turn.done, turn.value = r.Err == nil, r.Outputs
	switch {
	case r.Err != nil:
		sum.Failed, sum.Source, sum.Err = spec.ID, spec.Source, r.Err
	case r.Changed:
		sum.Changed = append(sum.Changed, spec.ID)
	default:
		sum.Unchanged = append(sum.Unchanged, spec.ID)
	}
}

// keep notes what a step has given, for the steps that refer to it.
func (h *hostRun) keep(spec steps.Spec, outputs map[string]string) {
	for k, v := range outputs {
		h.values[spec.ID+"."+k] = v
	}
}

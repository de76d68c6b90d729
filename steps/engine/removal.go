package engine

import (
	"context"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/wire"
)

// removalStep stands in for a step where what the plan no longer names is removed before the
// first of them.
const removalStep = "removal"

// carriers are the services without which pods cannot be run or looked after.
var carriers = []string{"kubelet", "containerd", "docker"}

// removesEarly reports whether a run removes something before its steps.
func (a *hostApply) removesEarly() bool { return a.report.Removals.Pending() > 0 }

// removeEarly removes what has to go before the steps run: services first, so that nothing
// holds what the steps need. The Node is drained before, where its pods would notice.
func (a *hostApply) removeEarly(ctx context.Context) {
	if !a.removesEarly() {
		return
	}
	if a.sum.Err = a.halted(ctx); a.sum.Err != nil {
		return
	}
	if a.stopsFirst(removalStep) {
		if a.sum.Err = a.drainNode(ctx); a.sum.Err != nil {
			a.sum.Failed, a.undrained = removalStep, true
			return
		}
	}
	a.remove(ctx, true)
}

// displaced are the services that a step takes the place of and that still stand: the runtime that the plan no
// longer has stops before the kubelet, which depends on it until then, starts with another one.
func (a *hostApply) displaced(next steps.Spec) (names []string) {
	if svc, ok := kinds.Runs(next); !ok || svc.Name != "kubelet" {
		return nil
	}
	for _, name := range carriers {
		key := kinds.ServiceKey(name)
		gone := slices.ContainsFunc(a.sum.Removed, func(r executor.Removal) bool { return r.Key == key })
		if !gone && a.removesCarrier(name) {
			names = append(names, name)
		}
	}
	return names
}

// removeLate removes the rest, once the steps are done: nothing uses it any more, and it is
// known what of an archive is left over. What the plan made under a former name is noted as made under its own.
func (a *hostApply) removeLate(ctx context.Context) {
	made := a.report.Removals.Of > 0 // by an earlier run: else the machine has only what the plan's steps made just now
	if a.node.Partial || !a.removesEarly() && (len(a.sum.Changed) == 0 || !made) && len(a.names) == 0 {
		return
	}
	a.remove(ctx, false)
}

// remove asks for a removal; halt are executor.RemoveRequest.Halt.
func (a *hostApply) remove(ctx context.Context, early bool, halt ...string) {
	req := executor.RemoveRequest{Request: a.request(a.specs(steps.OnHost)), Early: early, Halt: halt}
	if early {
		req.Snapshot = a.rollbackTo
	}
	reply, err := ask(ctx, a.hostRun, "applying", wire.Remove, req)
	a.sum.Removed = append(a.sum.Removed, reply.Removed...)
	if !early {
		a.sum.Left = reply.Left
	}
	if err == nil {
		a.connMutations = reply.Mutations
		a.sum.Mutations = a.lostMutations + a.connMutations
	}
	switch {
	case ctx.Err() != nil:
		a.sum.Err = steps.Interrupted("apply")
	case err != nil:
		a.sum.Err = err
	case reply.Err != nil:
		a.sum.Failed, a.sum.Err = reply.Failed, reply.Err
	}
}

// removesCarrier reports which of the services that carry pods go.
func (h *hostRun) removesCarrier(name string) bool {
	return slices.ContainsFunc(h.report.Removals.Items, func(r executor.Removal) bool {
		return r.Key == kinds.ServiceKey(name) && r.Change.Action == steps.ActionRemove
	})
}

// removedCarriers are the names of what goes and connects pods.
func (h *hostRun) removedCarriers() (names []string) {
	for _, r := range h.report.Removals.Removing() {
		if kinds.Undos()[r.Key.Prefix].Carries {
			names = append(names, r.Key.Name)
		}
	}
	return names
}

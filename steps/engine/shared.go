package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// once is something of the cluster that the hosts of a run share: one checks or makes it, for all.
type once struct {
	sync.Mutex
	done  bool
	value any
}

// sharedChecks is the cluster as a check of many hosts sees it: the accounts and objects that they share are requested
// once.
type sharedChecks struct {
	kube.Reader
	checked *sync.Map // of once, by what was asked
}

// ServiceAccount returns what the first host that asked got.
func (c sharedChecks) ServiceAccount(ctx context.Context, want kube.ServiceAccount) (kube.ServiceAccountState, error) {
	return checkOnce(c.checked, want, func() (kube.ServiceAccountState, error) {
		return c.Reader.ServiceAccount(ctx, want)
	})
}

// Manifest returns what the first host that asked got.
func (c sharedChecks) Manifest(ctx context.Context, want kube.Manifest) (kube.ManifestState, error) {
	return checkOnce(c.checked, want, func() (kube.ManifestState, error) { return c.Reader.Manifest(ctx, want) })
}

// checkOnce asks unless another host has had the answer. One that got an error is no reason not to ask.
func checkOnce[Want, State any](checked *sync.Map, want Want, ask func() (State, error)) (state State, err error) {
	text, err := json.Marshal(want)
	if err != nil {
		return state, err
	}
	found, _ := checked.LoadOrStore(fmt.Sprintf("%T %s", want, text), new(once))
	o := found.(*once)
	o.Lock()
	defer o.Unlock()
	if o.done {
		state, _ = o.value.(State)
		return state, nil
	}
	state, err = ask()
	o.value, o.done = state, err == nil
	return state, err
}

// shares is the turn of the host at a step whose state is the cluster's; the hosts with the same step get the same. A
// step that names its host is another one on each.
func (h *hostRun) shares(spec steps.Spec) *once {
	if !kinds.Of(spec).Shared || len(executor.Unresolved(spec.Args, h.values)) > 0 {
		return new(once)
	}
	spec.Args = steps.ResolveArgs(spec.Args, h.values)
	turn, _ := h.turns.LoadOrStore(sharedKey(spec), new(once))
	return turn.(*once)
}

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// rollout lets the hosts of a session change: those whose Nodes go on to serve pods as
// the session's slots allow, the others in their order and as the plan's rollout
// allows, so that never more Nodes are out of service than it says.
type rollout struct {
	*Session
	run   func(ctx context.Context, h *hostRun) HostSummary
	place map[*hostRun]int
	sum   *Summary

	mu       sync.Mutex
	changed  *sync.Cond
	out      map[*hostRun]bool // its Node is out of service, or this run is about to take it out
	away     []string          // Nodes of the plan that are out of service and not of this run
	busy     int               // of those that take turns
	failures int
	budget   budget
	wave     *wave
}

// takesTurn reports whether a host has something to do that takes its Node out of service,
// or that could bring it back.
func (h *hostRun) takesTurn() bool {
	if h.report.Err != nil || slices.ContainsFunc(h.report.Steps, func(s StepReport) bool {
		return s.Result.Err != nil
	}) {
		return false // nothing is done to it
	}
	if h.movedServes() {
		return true
	}
	pending := h.report.Snapshot != nil || slices.ContainsFunc(h.report.Steps, func(s StepReport) bool {
		return !s.Result.Change.NoOp()
	})
	return h.report.Interruption != nil || h.out() && pending
}

// roll runs all hosts and waits for them.
func (s *Session) roll(ctx context.Context, sum *Summary, run func(ctx context.Context, h *hostRun) HostSummary) {
	r := &rollout{Session: s, run: run, place: s.index(), sum: sum,
		out: map[*hostRun]bool{}}
	r.changed = sync.NewCond(&r.mu)
	r.budget = s.budget()
	r.wave = &wave{budget: r.budget, limits: s.plan.Rollout.Limits}
	var turns, others []*hostRun
	for _, h := range s.hosts {
		switch {
		case h.takesTurn():
			turns = append(turns, h)
		default:
			others = append(others, h)
		}
		if h.out() {
			r.out[h] = true
		}
	}
	// Those that are out already cost nothing more, and may come back. The machine that
	// this process runs on stays out when the run ends, if it is to be rebooted.
	slices.SortStableFunc(turns, func(a, b *hostRun) int {
		return cmp.Or(cmp.Compare(number(a.rebootsSelf()), number(b.rebootsSelf())),
			cmp.Compare(number(b.out()), number(a.out())))
	})
	var wait sync.WaitGroup
	wait.Go(func() {
		if len(turns) == 0 {
			return
		}
		if err := r.countAway(ctx); err != nil {
			r.hold(ctx, turns, "cannot read which Nodes are out of service: "+steps.AsError(err).Error())
			return
		}
		r.turns(ctx, turns)
	})
	for _, h := range others {
		r.slots.take()
		wait.Go(func() {
			defer r.slots.give()
			sum.Hosts[r.place[h]] = r.one(ctx, h)
			r.wave.settle(ctx, sum.Hosts[r.place[h]])
		})
	}
	wait.Wait()
}

// number is for comparing.
func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// turns takes the hosts in their order, each as soon as it may.
func (r *rollout) turns(ctx context.Context, hosts []*hostRun) {
	var wait sync.WaitGroup
	defer wait.Wait()
	for i, h := range hosts {
		done, why := func(bool) {}, r.wave.turn(ctx, h, func() string { return r.stopped(ctx) })
		if why == "" {
			if why = r.turn(h); why == "" {
				done, why = r.budget.turn(ctx, h)
			}
			if why != "" {
				r.wave.giveUp(ctx, h.node.Name)
			}
		}
		if why != "" {
			r.hold(ctx, hosts[i:], why)
			return
		}
		r.slots.take()
		wait.Go(func() {
			res := r.one(ctx, h)
			r.slots.give()
			out := true // as long as it is not known
			if err := guarded(func() { out = h.outNow(ctx) }); err != nil && res.Err == nil {
				res.Err = err
			}
			r.wave.end(ctx, res)
			done(res.failed())
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sum.Hosts[r.place[h]] = res
			r.busy--
			r.out[h] = out
			if !out {
				delete(r.out, h)
			}
			if res.failed() {
				r.failures++
			}
			r.changed.Broadcast()
		})
	}
}

// one runs one host; a panic is its failure alone.
func (r *rollout) one(ctx context.Context, h *hostRun) (res HostSummary) {
	start := time.Now()
	defer func() { res.Took = time.Since(start) }()
	if err := guarded(func() { res = r.run(ctx, h) }); err != nil {
		res = HostSummary{Node: h.node.Name, NotRun: ids(h.node.Steps), Err: err}
		h.state("failed", "")
	}
	return res
}

// hold leaves hosts for another run, which continues if this one was stopped.
func (r *rollout) hold(ctx context.Context, hosts []*hostRun, why string) {
	for _, h := range hosts {
		sum := HostSummary{Node: h.node.Name, NotRun: ids(h.node.Steps), Held: why}
		if ctx.Err() != nil {
			sum.Held, sum.Err = "", steps.Interrupted("apply")
		}
		h.state("waiting", why)
		r.mu.Lock()
		r.sum.Hosts[r.place[h]] = sum
		r.mu.Unlock()
	}
}

// countAway finds the Nodes that bear the plan's mark and are not of this run, as
// --target and --skip leave them out: those that are out of service count all the same.
func (r *rollout) countAway(ctx context.Context) error {
	if r.plan.Cluster == nil || r.opt.Shard != "" {
		return nil // of several shards the budget counts
	}
	nodes, err := r.api.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		here := slices.ContainsFunc(r.hosts, func(h *hostRun) bool { return h.is(n.Name) })
		if !here && n.Annotations[kube.PlanOf] == r.planName() && n.Out() {
			r.away = append(r.away, n.Name)
		}
	}
	return nil
}

// turn waits until the host may begin; it gives why it may not in this run.
func (r *rollout) turn(h *hostRun) (why string) {
	limit := r.limit()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		others := len(r.away)
		for o := range r.out {
			if o != h {
				others++
			}
		}
		switch {
		case r.failures >= limit.MaxFailures:
			return r.failed()
		case r.busy < limit.MaxUnavailable && (r.out[h] || others < limit.MaxUnavailable):
			r.busy++
			r.out[h] = true
			return ""
		case r.busy == 0:
			return fmt.Sprintf("the rollout may have %d %s out of service, and %s out already", limit.MaxUnavailable,
				plural(limit.MaxUnavailable, "Node"), r.names())
		}
		r.changed.Wait()
	}
}

// failed says why no further host begins.
func (r *rollout) failed() string {
	return fmt.Sprintf("the rollout stopped after %d %s", r.failures, plural(r.failures, "failure"))
}

// stopped says why no further host begins, if that is so because hosts have failed, of this run or others.
func (r *rollout) stopped(ctx context.Context) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures >= r.limit().MaxFailures {
		return r.failed()
	}
	if !r.budget.shared() {
		return ""
	}
	return r.budget.stoppedNow(ctx)
}

// names says who is out of service.
func (r *rollout) names() string {
	names := slices.Clone(r.away)
	for _, h := range r.hosts {
		if r.out[h] {
			names = append(names, h.node.Name)
		}
	}
	return fewNames(names)
}

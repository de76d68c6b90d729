package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

const (
	// firstPause and slotEvery are the shortest and the longest time between two attempts to take a slot. slotWait
	// bounds the wait for one.
	firstPause = 50 * time.Millisecond
	slotEvery  = 2 * time.Second
	slotWait   = 2 * time.Hour
)

// budget is the rollout of several shards at once. It has one slot, a Lease, for each Node that may be out of service.
// A run holds a slot while it takes a Node out; the Lease of a run that died ends by itself. A Node that stays out
// needs no slot: the cluster shows it. A run takes a slot before it counts, so that of two runs the second sees the
// first.
type budget struct {
	*Session
	limit plan.Rollout
	look  func() string // that of Turn; nil = nothing ends the wait
	cause *error        // why the cluster could not be asked; nil = nobody wants to know
}

// limit is what the plan allows.
func (s *Session) limit() plan.Rollout {
	out := s.plan.Rollout
	out.MaxUnavailable, out.MaxFailures = max(1, out.MaxUnavailable), max(1, out.MaxFailures)
	return out
}

// budget is that of the plan's rollout.
func (s *Session) budget() budget { return budget{Session: s, limit: s.limit()} }

// pace is the longest time between two attempts to begin.
func (s *Session) pace() time.Duration {
	if s.opt.TurnEvery > 0 {
		return s.opt.TurnEvery
	}
	return slotEvery
}

// shared reports whether other shards have a part in the rollout, and the run has to wait for its turn among them.
func (b budget) shared() bool {
	return b.opt.Shard != "" && b.api != nil && b.opt.Holder.Run != "" && !b.opt.InTurn
}

// turn waits until the rollout of all shards lets the host begin. done ends its turn. If why is not empty, the host
// may not begin in this run.
func (b budget) turn(ctx context.Context, h *hostRun) (done func(failed bool), why string) {
	if !b.shared() {
		return func(bool) {}, ""
	}
	slot, why := b.slot(ctx, h)
	if why != "" {
		return nil, why
	}
	letGo := b.keep(context.WithoutCancel(ctx), slot)
	return func(failed bool) {
		if err := b.noteFailure(ctx, h.node.Name, failed); err != nil {
			summary := "the other shards still count the node as failed"
			if failed {
				summary = "the other shards do not know of the failure"
			}
			b.emit(event.Warning{Host: h.node.Name, Summary: summary, Detail: err.Error()})
		}
		letGo()
	}, ""
}

// slot waits for a slot, which the caller renews. If why is not empty, the host may not begin in this run.
func (b budget) slot(ctx context.Context, h *hostRun) (slot kube.Lease, why string) {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	said := ""
	for pause := firstPause; ; pause = min(2*pause, b.pace()) {
		if b.look != nil {
			if why := b.look(); why != "" {
				return slot, why
			}
		}
		slot, waits, why := b.try(ctx, h)
		switch {
		case why != "":
			return kube.Lease{}, why
		case slot != nil:
			return *slot, ""
		}
		if waits != said {
			said = waits
			h.state("waiting", waits)
		}
		select {
		case <-ctx.Done():
			return kube.Lease{}, "it waited for its turn: " + waits
		case <-time.After(spread(pause)): // between two attempts
		}
	}
}

// spread is a random time of at least half of a pause, so that those who wait for the same try at different times.
func spread(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause/2+1) //nolint:gosec // only spreads requests
}

// cannot says that the cluster could not be asked, and keeps why.
func (b budget) cannot(what string, err error) (why string) {
	err = fmt.Errorf("cannot %s: %w", what, err)
	if b.cause != nil {
		*b.cause = err
	}
	return err.Error()
}

// try takes a slot; otherwise waits is what the host waits for, or why is why it may not begin in this run. After one
// that has begun, a host takes a slot that was free then, and so reads the Leases once.
func (b budget) try(ctx context.Context, h *hostRun) (slot *kube.Lease, waits, why string) {
	list, of := b.seen.last()
	if of {
		slot, why = b.take(ctx, list, h.node.Name)
	}
	if slot == nil && why == "" {
		if list, why = b.leases(ctx); why == "" {
			why = b.stopped(list)
		}
		if why == "" {
			slot, why = b.take(ctx, list, h.node.Name)
		}
	}
	switch {
	case why != "":
		return nil, "", why
	case slot == nil:
		b.seen.forget()
		in := b.working(list, "")
		if slices.Contains(in, h.node.Name) {
			return nil, "another run has taken a slot of the rollout for the Node", ""
		}
		return nil, "all slots of the rollout are taken: " + strings.Join(in, ", "), ""
	}
	if waits, why = b.room(ctx, h, slot.Name); waits+why == "" {
		return slot, "", ""
	}
	b.seen.forget()
	b.release(ctx, *slot)
	return nil, waits, why
}

// room reports what keeps the host, whose slot is own, from beginning; see try.
func (b budget) room(ctx context.Context, h *hostRun, own string) (waits, why string) {
	list, why := b.leases(ctx)
	if why == "" {
		why = b.stopped(list)
	}
	if why != "" {
		return "", why
	}
	others := b.working(list, own)
	out, outSelf, err := b.out(ctx, h, others, b.api.OutOfService)
	if err == nil && len(others) == 0 && len(out) >= b.limit.MaxUnavailable {
		// This would end the run, and a watch may be late.
		out, outSelf, err = b.out(ctx, h, others, b.api.Nodes)
	}
	switch {
	case err != nil:
		return "", b.cannot("read which Nodes are out of service", err)
	case outSelf || len(others)+len(out) < b.limit.MaxUnavailable:
		return "", ""
	case len(others) > 0:
		return "the limit of Nodes out of service is reached: " + strings.Join(append(others, out...), ", "), ""
	}
	return "", fmt.Sprintf("the rollout may have %d %s out of service, and %s out already", b.limit.MaxUnavailable,
		plural(b.limit.MaxUnavailable, "Node"), fewNames(out))
}

// leases reads the plan's Leases.
func (b budget) leases(ctx context.Context) (list []kube.Lease, why string) {
	list, err := b.api.Leases(ctx, leaseName(b.planName())+".")
	if err != nil {
		b.seen.forget()
		return nil, b.cannot("read the slots of the rollout", err)
	}
	b.seen.keep(list)
	return list, ""
}

// stopped says why no further host begins, if that is so because hosts of other shards have failed. A node whose own
// turn has failed may try again: it counts already.
func (b budget) stopped(list []kube.Lease) string {
	failed, self := b.failures(list)
	if len(failed) < b.limit.MaxFailures || b.look != nil && self {
		return ""
	}
	return fmt.Sprintf("the rollout stopped after %d %s (%s)", len(failed), plural(len(failed), "failure"),
		strings.Join(failed, ", "))
}

// stoppedNow is stopped by the plan's Leases as they are now. Where they cannot be read, who takes a slot says so.
func (b budget) stoppedNow(ctx context.Context) string {
	list, err := b.api.Leases(ctx, leaseName(b.planName())+".")
	if err != nil {
		return ""
	}
	return b.stopped(list)
}

// take takes the slot that the node has from a run that died, or that this run could not release, or else the first
// that nobody has; nil = there is none, or another run goes on with the node, or why says why. list has the plan's
// Leases.
func (b budget) take(ctx context.Context, list []kube.Lease, node string) (slot *kube.Lease, why string) {
	holder := b.holder(node)
	own, from := "", "" // its slot, and who has it
	var free []string
	for i := range b.limit.MaxUnavailable {
		name := fmt.Sprintf("%s%s%d", leaseName(b.planName()), slotMark, i)
		at := slices.IndexFunc(list, func(l kube.Lease) bool { return l.Name == name && l.Live(time.Now()) })
		switch {
		case at < 0:
			free = append(free, name)
		case list[at].Holder == holder, list[at].Note == node && b.left(list, list[at]):
			own, from = name, list[at].Holder
		case list[at].Note == node:
			return nil, ""
		}
	}
	if own != "" {
		free = slices.Insert(free, 0, own)
	}
	for _, name := range free {
		l := kube.Lease{Name: name, Note: node, Holder: holder, Duration: leaseFor, Renewed: time.Now()}
		_, err := b.api.TakeLease(ctx, l, from)
		if err == nil {
			return &l, ""
		}
		if !errors.Is(err, kube.ErrHeld) {
			return nil, b.cannot("take a slot of the rollout", err)
		}
	}
	return nil, ""
}

// ofShard is in the holder of a slot that was taken by Turn, before the name of its shard.
const ofShard = " of "

// holder is who has the slot of a node: the run and the node. Turn has no Lease of its shard, so it names that.
func (b budget) holder(node string) string {
	if b.look != nil {
		return b.opt.Holder.Run + " " + node + ofShard + b.opt.Shard
	}
	return b.opt.Holder.Run + " " + node
}

// left reports whether the slot of a node is left from a run that died. A node is of one shard, and this run is the
// only one of its own: so a slot that Turn took is left if it is of this shard, and any other if its run does not have
// the Lease of another shard, too.
func (b budget) left(list []kube.Lease, slot kube.Lease) bool {
	run, rest, _ := strings.Cut(slot.Holder, " ")
	if _, shard, ok := strings.Cut(rest, ofShard); ok {
		return shard == b.opt.Shard
	}
	return !slices.ContainsFunc(list, func(l kube.Lease) bool {
		return strings.Contains(l.Name, shardMark) && l.Name != b.ownLease() && l.Holder == run && l.Live(time.Now())
	})
}

// out are the Nodes of the plan that are out of service and have no slot. self reports whether that of the host is.
func (b budget) out(ctx context.Context, h *hostRun, working []string,
	among func(context.Context) ([]kube.Node, error)) (names []string, self bool, err error) {
	nodes, err := among(ctx)
	for _, n := range nodes {
		switch {
		case !n.Out():
		case h.is(n.Name):
			self = self || n.Name == h.nodeNow()
		case n.Annotations[kube.PlanOf] == b.planName() && !slices.Contains(working, n.Name):
			names = append(names, n.Name)
		}
	}
	return names, self, err
}

// working are the nodes in slots, without that of the slot called own.
func (b budget) working(list []kube.Lease, own string) (names []string) {
	for _, l := range list {
		if strings.HasPrefix(l.Name, leaseName(b.planName())+slotMark) && l.Name != own && l.Live(time.Now()) {
			names = append(names, l.Note)
		}
	}
	slices.Sort(names)
	return names
}

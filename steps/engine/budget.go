package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kube"
)

const (
	// failedFor is how long a failure counts for runs of other shards.
	failedFor = time.Hour
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

// failureFor is how long a failure counts for other runs.
func (s *Session) failureFor() time.Duration {
	if s.opt.FailureFor > 0 {
		return s.opt.FailureFor
	}
	return failedFor
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
		b.noteFailure(ctx, h.node.Name, failed)
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
		case <-time.After(pause): // between two attempts
		}
	}
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
		return nil, "all slots of the rollout are taken: " + strings.Join(b.working(list, ""), ", "), ""
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
	out, err := b.out(ctx, h, others, b.api.OutOfService)
	if err == nil && len(others) == 0 && len(out) >= b.limit.MaxUnavailable {
		// This would end the run, and a watch may be late.
		out, err = b.out(ctx, h, others, b.api.Nodes)
	}
	switch {
	case err != nil:
		return "", "cannot read which Nodes are out of service: " + steps.AsError(err).Error()
	case h.out() || len(others)+len(out) < b.limit.MaxUnavailable:
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
		return nil, "cannot read the slots of the rollout: " + steps.AsError(err).Error()
	}
	b.seen.keep(list)
	return list, ""
}

// stopped says why no further host begins, if that is so because hosts of other shards have failed.
func (b budget) stopped(list []kube.Lease) string {
	failed := b.failures(list)
	if len(failed) < b.limit.MaxFailures {
		return ""
	}
	return fmt.Sprintf("the rollout stopped after %d %s (%s)", len(failed), plural(len(failed), "failure"),
		strings.Join(failed, ", "))
}

// take takes the slot that the node has from a run that died, or that this run could not release, or else the first
// that nobody has; nil = there is none, or why says why. list has the plan's Leases.
func (b budget) take(ctx context.Context, list []kube.Lease, node string) (slot *kube.Lease, why string) {
	holder := b.opt.Holder.Run + " " + node
	own, from := "", "" // its slot, and who has it
	var free []string
	for i := range b.limit.MaxUnavailable {
		name := fmt.Sprintf("%s%s%d", leaseName(b.planName()), slotMark, i)
		at := slices.IndexFunc(list, func(l kube.Lease) bool { return l.Name == name && l.Live(time.Now()) })
		switch {
		case at < 0:
			free = append(free, name)
		case list[at].Holder == holder, list[at].Note == node && !b.works(list, list[at]):
			own, from = name, list[at].Holder
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
			return nil, "cannot take a slot of the rollout: " + steps.AsError(err).Error()
		}
	}
	return nil, ""
}

// works reports whether the run that has a slot has the Lease of another shard, too. A node is of one shard, and this
// run is the only one of its own: so a slot of the node that another run holds is left from one that died.
func (b budget) works(list []kube.Lease, slot kube.Lease) bool {
	run, _, _ := strings.Cut(slot.Holder, " ")
	return slices.ContainsFunc(list, func(l kube.Lease) bool {
		return strings.Contains(l.Name, shardMark) && l.Name != b.ownLease() && l.Holder == run && l.Live(time.Now())
	})
}

// out are the Nodes of the plan that are out of service and have no slot.
func (b budget) out(ctx context.Context, h *hostRun, working []string,
	among func(context.Context) ([]kube.Node, error)) (names []string, err error) {
	nodes, err := among(ctx)
	for _, n := range nodes {
		if n.Annotations[kube.PlanOf] == b.planName() && n.Out() && !h.is(n.Name) && !slices.Contains(working, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names, err
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

// failures are the nodes of other shards that failed in runs of the group. This run counts its own.
func (b budget) failures(list []kube.Lease) (names []string) {
	prefix := leaseName(b.planName()) + failedMark
	for _, l := range list {
		name, ok := strings.CutPrefix(l.Name, prefix)
		own := slices.ContainsFunc(b.hosts, func(h *hostRun) bool { return h.node.Name == name })
		if ok && !own && l.Holder == b.group() && l.Live(time.Now()) {
			names = append(names, name)
		}
	}
	return names
}

// group is whose failures count together: where no group is given, those over the same plan.
func (b budget) group() string {
	if b.opt.Group != "" {
		return b.opt.Group
	}
	return "plan " + b.opt.PlanDigest
}

// noteFailure notes whether the run of a node has failed.
func (b budget) noteFailure(ctx context.Context, node string, failed bool) {
	l := kube.Lease{Name: leaseName(b.planName()) + failedMark + node, Holder: b.group(), Note: node,
		Duration: b.failureFor(), Renewed: time.Now()}
	if !failed {
		list, known := b.seen.last()
		if !known || slices.ContainsFunc(list, func(o kube.Lease) bool { return o.Name == l.Name }) {
			b.release(ctx, l)
		}
		return
	}
	ctx, cancel := kube.Bound(context.WithoutCancel(ctx), letGoFor)
	defer cancel()
	if before, err := b.api.TakeLease(ctx, l, ""); errors.Is(err, kube.ErrHeld) {
		_, _ = b.api.TakeLease(ctx, l, before.Holder) // of an earlier group
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

// checkMoved finds the Nodes that this machine has in the cluster under former names of its node.
func (h *hostRun) checkMoved(ctx context.Context) error {
	if h.api == nil || h.node.Partial {
		return nil
	}
	for _, from := range slices.Sorted(maps.Keys(h.plan.Moved)) {
		if h.plan.Moved[from] != h.node.Name {
			continue
		}
		n, err := h.api.Node(ctx, from)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !h.joinedByPlan(n) {
			continue
		}
		if err != nil {
			return err
		}
		if own := h.address(); n.InternalIP == "" || n.InternalIP != own {
			h.stays.Store(from, true)
			h.emit(event.Warning{Host: h.node.Name, Summary: "the Node " + from + " is another machine's",
				Detail: fmt.Sprintf("it has the address %s, this machine has %s: the moved block has no effect on it",
					n.InternalIP, own)})
			continue
		}
		h.report.Moved = append(h.report.Moved, n)
	}
	return nil
}

// joinedByPlan reports whether a Node has the plan's mark, or that of one of its former names.
func (h *hostRun) joinedByPlan(n kube.Node) bool {
	mark := n.Annotations[kube.PlanOf]
	return mark != "" && (mark == h.planName() || slices.Contains(h.names, mark))
}

// address is what the kubelet of the machine reports.
func (h *hostRun) address() string {
	if h.node.ManagementIP != "" {
		return h.node.ManagementIP
	}
	return h.report.Facts.ManagementIP
}

// movedAway reports whether a Node that the plan no longer names is a node of the plan under another name.
func (s *Session) movedAway(node string) bool {
	_, stays := s.stays.Load(node)
	to := s.plan.Moved[node]
	return to != "" && slices.Contains(s.opt.Members, to) && !stays
}

// movedServes reports whether pods are on a Node that the machine leaves.
func (h *hostRun) movedServes() bool {
	return slices.ContainsFunc(h.report.Moved, func(n kube.Node) bool { return n.Ready })
}

// formerNode is the run of a Node that is not a node of the plan.
func (s *Session) formerNode(name string) *hostRun {
	h := &hostRun{Session: s}
	h.node.Name = name
	return h
}

// drainMoved cordons and drains the Nodes under former names, before anything on the machine is changed. If the
// name in the plan is changed back, the next apply lets the Node take pods again.
func (a *hostApply) drainMoved(ctx context.Context) {
	for _, n := range a.report.Moved {
		was := a.formerNode(n.Name)
		was.report.KubeNode = &n
		if err := was.drainNode(ctx); err != nil {
			a.sum.Failed, a.sum.Err, a.undrained = "drain", err, true
			return
		}
	}
}

// removeMoved deletes the Nodes under former names, once the machine works under its own.
func (a *hostApply) removeMoved(ctx context.Context) {
	for _, n := range a.report.Moved {
		was := a.formerNode(n.Name)
		a.sum.Err = was.phase(ctx, "node_object", func() error { return was.deleteNode(ctx, &n) })
		if a.sum.Err != nil {
			a.sum.Failed = "node_object"
			return
		}
		a.sum.Moved = append(a.sum.Moved, n.Name)
	}
}

// restoreMoved lets Nodes under former names take pods again, where the machine was rolled back to them.
func (a *hostApply) restoreMoved(ctx context.Context) {
	for _, n := range a.report.Moved {
		was := a.formerNode(n.Name)
		if n.Unschedulable {
			continue // it was before
		}
		if err := was.phase(ctx, "uncordon", func() error {
			return absentIsFine(a.api.Uncordon(ctx, n.Name))
		}); err != nil {
			if a.sum.Rollback == nil { // nothing else had to be restored
				a.sum.Rollback = &Rollback{}
			}
			a.sum.Rollback.Failed, a.sum.Rollback.Err = "uncordon", err
		}
	}
}

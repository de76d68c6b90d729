package engine

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

// findFormer looks for the Nodes that the plan joined and no longer names, by the mark
// that they carry (kube.PlanOf). If they cannot be listed, that is a warning: nothing of the plan depends
// on them.
func (s *Session) findFormer(ctx context.Context) []kube.Node {
	if s.plan.Cluster == nil || s.opt.Members == nil || s.open(ctx) != nil {
		return nil
	}
	api, err := s.cluster(ctx)
	if err != nil {
		return nil // reported with the hosts
	}
	all, err := s.nodes(ctx, api)
	if err != nil {
		if ctx.Err() == nil {
			s.emit(event.Warning{Detail: err.Error(),
				Summary: "it is not known whether the cluster has nodes that the plan no longer names"})
		}
		return nil
	}
	var out []kube.Node
	for _, n := range all {
		if n.Annotations[kube.PlanOf] == s.planName() && !slices.Contains(s.opt.Members, n.Name) &&
			!s.movedAway(n.Name) && (s.opt.Mine == nil || s.opt.Mine(n.Name)) {
			out = append(out, n)
		}
	}
	return out
}

// PruneResult is the result for one Node that the plan no longer names.
type PruneResult struct {
	Node   string
	Failed string // where it ended; "" = it is gone
	Err    error
}

// Prune takes the Nodes of r.Former out of the cluster, one after the other: each is
// cordoned, drained where it is Ready, and deleted with its bootstrap tokens. Their
// machines are not touched: the plan no longer says how they are reached. One
// that fails does not stop the others, and the next Prune continues.
func (s *Session) Prune(ctx context.Context, r *Report) []PruneResult {
	letGo, held := s.holdCluster(ctx)
	defer letGo()
	var out []PruneResult
	for _, n := range r.Former {
		res := PruneResult{Node: n.Name, Err: held}
		if held == nil {
			s.prune(ctx, n, &res)
		}
		out = append(out, res)
	}
	return out
}

func (s *Session) prune(ctx context.Context, n kube.Node, res *PruneResult) {
	h := s.formerNode(n.Name)
	phase := func(id string, f func() error) {
		if res.Err == nil {
			if res.Err = h.phase(ctx, id, f); res.Err != nil {
				res.Failed = id
			}
		}
	}
	// The Node may have changed since it was listed: a person was asked and hosts were changed in between.
	now, err := s.api.Node(ctx, n.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		now = n
		now.Ready, now.Unschedulable = false, true
	case err != nil:
		res.Err, res.Failed = err, "node_object"
		return
	case now.UID != n.UID || now.Annotations[kube.PlanOf] != n.Annotations[kube.PlanOf]:
		res.Err, res.Failed = &steps.Error{Code: steps.CodeFailed, Summary: "the Node belongs to another now",
			Detail: "since it was listed it was created again, or another plan has taken it; it is left as it is"},
			"node_object"
		return
	}
	n = now
	if !n.Unschedulable {
		phase("cordon", func() error { return absentIsFine(s.api.Cordon(ctx, n.Name, "prune")) })
	}
	if n.Ready {
		phase("drain", func() error { return h.drain(ctx, s.opt.Drain) })
	}
	phase("node_object", func() error { return h.deleteNode(ctx, &n) })
}

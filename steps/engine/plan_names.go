package engine

import (
	"context"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// nodes lists the Nodes of the cluster once.
func (s *Session) nodes(ctx context.Context, api kube.API) ([]kube.Node, error) {
	s.nodesOnce.Do(func() { s.listed, s.listErr = api.Nodes(ctx) })
	return s.listed, s.listErr
}

// findNames finds the former names of the plan, where something of the node depends on them: its Node carries
// another name, or its steps make objects, which are members of a set of that name.
func (h *hostRun) findNames(ctx context.Context, api kube.API) {
	n := h.report.KubeNode
	other := n != nil && n.Annotations[kube.PlanOf] != "" && n.Annotations[kube.PlanOf] != h.planName()
	makes := slices.ContainsFunc(h.node.Steps, func(s steps.Spec) bool { return kinds.Of(s).Objects != nil })
	if other || makes {
		h.names = h.formerNames(ctx, api)
	}
}

// formerNames are the names of the plan before its cluster block got another label: its Nodes carry them, and no
// Node of the cluster that is not the plan's. Where the Nodes cannot be listed there are none: what another plan
// has made stays.
func (s *Session) formerNames(ctx context.Context, api kube.API) (names []string) {
	if s.plan.Cluster == nil || s.opt.Members == nil {
		return nil
	}
	list, err := s.nodes(ctx, api)
	if err != nil {
		return nil // findFormer warns of it
	}
	others := map[string]bool{"": true, s.planName(): true}
	for _, n := range list {
		if !slices.Contains(s.opt.Members, n.Name) {
			others[n.Annotations[kube.PlanOf]] = true
		}
	}
	for _, n := range list {
		if name := n.Annotations[kube.PlanOf]; !others[name] {
			others[name] = true
			names = append(names, name)
		}
	}
	return names
}

package engine

import (
	"context"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// nodes lists the Nodes of the cluster once.
func (s *Session) nodes(ctx context.Context, api kube.API) ([]kube.Node, error) {
	s.nodesOnce.Do(func() { s.listed, s.listErr = api.Nodes(ctx) })
	return s.listed, s.listErr
}

// findNames finds the former names of the plan, where something of the node depends on them: its Node carries
// another name, its steps make objects, which are members of a set of that name, or an earlier run noted them.
func (h *hostRun) findNames(ctx context.Context, api kube.API) {
	h.namesOnce.Do(func() { h.renamed = h.formerNames(ctx, api) })
	h.names = h.renamed
}

// formerNames are the names of the plan before its cluster block got another label: its Nodes carry them, or the
// parent of its set since a run with the new name began, and no Node of the cluster that is not the plan's. Where
// the Nodes cannot be listed there are none: what another plan has made stays.
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
	add := func(name string) {
		if steps.OtherEnvironment("", name, s.planName()) != nil {
			return // its Nodes are another environment's
		}
		if !others[name] {
			others[name] = true
			names = append(names, name)
		}
	}
	for _, n := range list {
		add(n.Annotations[kube.PlanOf])
	}
	// A set that cannot be read is the warning of findObjects.
	state, err := s.firstSet(ctx, api)
	for i := 0; ; i++ { // a name may have been changed again before that came to its end
		if err == nil && !state.Foreign {
			for _, name := range state.Former {
				add(name)
			}
		}
		if i == len(names) {
			return names
		}
		state, err = api.ApplySet(ctx, kube.ApplySet{Plan: names[i]})
	}
}

package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// objectsOf are the objects that the plan's steps make; known is false while one of them is not known.
func (s *Session) objectsOf() (out []kube.Manifest, known bool) {
	seen := map[string]bool{}
	for _, n := range s.plan.Nodes {
		for _, spec := range n.Steps {
			if kinds.Of(spec).Objects == nil || seen[sharedKey(spec)] {
				continue
			}
			seen[sharedKey(spec)] = true
			step, k, err := kinds.Catalog().Decode(spec)
			if err != nil || len(steps.ArgRefs(spec.Args)) > 0 {
				return nil, false
			}
			list, err := k.Objects(step)
			if err != nil {
				return nil, false
			}
			out = append(out, list...)
		}
	}
	return out, true
}

// set is the plan's set of objects.
func (s *Session) set() kube.ApplySet { return kube.ApplySet{Plan: s.planName()} }

// findObjects finds the objects that the plan made and no longer names, by their labels. Of a part of the plan's
// nodes or steps it finds none. That the set cannot be read is a warning: nothing of the plan depends on it.
func (s *Session) findObjects(ctx context.Context) []ObjectRemoval {
	if s.plan.Cluster == nil || len(s.opt.Members) != len(s.plan.Nodes) || s.open(ctx) != nil ||
		slices.ContainsFunc(s.hosts, func(h *hostRun) bool { return h.node.Partial }) {
		return nil
	}
	api, err := s.cluster(ctx)
	if err != nil {
		return nil // reported with the hosts
	}
	out, _, err := s.formerObjects(ctx, api)
	if err != nil && ctx.Err() == nil {
		s.emit(event.Warning{Detail: err.Error(),
			Summary: "it is not known whether the cluster has objects that the plan no longer names"})
	}
	return out
}

// formerObjects are the members of the set that no step makes, in the order in which they are deleted.
func (s *Session) formerObjects(ctx context.Context, api kube.API) (out []ObjectRemoval, state kube.SetState,
	err error) {
	wanted, known := s.objectsOf()
	if !known {
		return nil, state, nil
	}
	if state, err = api.ApplySet(ctx, s.set()); err != nil || state.Foreign {
		return nil, state, err
	}
	members := slices.Clone(state.Members)
	for _, name := range s.renamedFrom() {
		former, err := api.ApplySet(ctx, kube.ApplySet{Plan: name})
		if err != nil {
			return nil, state, err
		}
		if !former.Foreign {
			members = append(members, former.Members...)
		}
	}
	for _, m := range members {
		if !slices.ContainsFunc(wanted, m.Is) {
			out = append(out, ObjectRemoval{Member: m, Left: s.staysObject(m)})
		}
	}
	if o := s.unfinished(state, wanted); o != nil {
		out = append(out, *o)
	}
	slices.SortStableFunc(out, func(a, b ObjectRemoval) int { // those in namespaces first
		return cmp.Or(strings.Compare(b.Namespace, a.Namespace), strings.Compare(a.String(), b.String()))
	})
	return out, state, nil
}

// staysObject says why an object is not deleted; "" = it is.
func (s *Session) staysObject(m kube.Member) string {
	switch {
	case m.GroupKind() == "Namespace" || m.GroupKind() == "CustomResourceDefinition.apiextensions.k8s.io":
		return "the objects of others in it would go with it; delete it with kubectl"
	case len(m.Others) > 0 && !s.opt.PruneChanged:
		return strings.Join(m.Others, ", ") + " changed it since nodejoin made it; --prune-changed deletes it"
	}
	return ""
}

// joinSet makes the parent of the set say which kinds and namespaces its members have, once in a run and before
// the first of them is made: what a run that died has made is found.
func (s *Session) joinSet(ctx context.Context) error {
	s.setOnce.Do(func() {
		state, err := s.api.ApplySet(ctx, s.set())
		if err == nil {
			err = s.writeSet(ctx, state, state.Kinds, state.Namespaces)
		}
		s.setErr = err
	})
	return s.setErr
}

// writeSet writes the parent for the plan's objects and for others of these kinds and namespaces.
func (s *Session) writeSet(ctx context.Context, state kube.SetState, groupKinds, namespaces []string) error {
	wanted, _ := s.objectsOf()
	groupKinds, namespaces = slices.Clone(groupKinds), slices.Clone(namespaces)
	for _, m := range wanted {
		if m.Existing {
			continue
		}
		groupKinds, namespaces = append(groupKinds, m.GroupKind()), append(namespaces, m.Space())
	}
	parent := s.set().Parent(s.opt.Version, groupKinds, namespaces)
	switch {
	case state.Foreign:
		return &steps.Error{Code: steps.CodeFailed, Summary: "ApplySet of another tool",
			Detail: "the " + parent.String() + " is the parent of an ApplySet that another tool made",
			Remedy: "rename the plan's cluster block, or delete the ConfigMap"}
	case len(groupKinds) > 0:
		return s.api.ApplyManifest(ctx, parent)
	case !state.Exists:
		return nil
	}
	return s.api.DeleteObject(ctx, kube.Member{Manifest: parent})
}

// removeObjects deletes the objects that the plan no longer names, once all hosts are as planned.
func (s *Session) removeObjects(ctx context.Context, sum *Summary) {
	failed := slices.ContainsFunc(sum.Hosts, func(h HostSummary) bool { return h.Err != nil || h.Held != "" })
	goes := func(o ObjectRemoval) bool { return o.Left == "" }
	if failed || len(s.renamedFrom()) == 0 && !slices.ContainsFunc(s.former, goes) {
		return
	}
	list, state, err := s.formerObjects(ctx, s.api) // again: others may have changed them since
	if err != nil {
		sum.ObjectsErr = err
		return
	}
	var groupKinds, namespaces []string
	for _, o := range list {
		if o.Finishes != "" {
			sum.Objects = append(sum.Objects, o)
			continue
		}
		if o.Left == "" {
			if o.Err = s.api.DeleteObject(ctx, o.Member); o.Err == nil {
				sum.Objects = append(sum.Objects, o)
				continue
			}
			sum.ObjectsErr = cmp.Or(sum.ObjectsErr, o.Err)
		}
		sum.Objects = append(sum.Objects, o)
		groupKinds, namespaces = append(groupKinds, o.GroupKind()), append(namespaces, o.Namespace)
	}
	err = s.writeSet(ctx, state, groupKinds, namespaces)
	for _, name := range s.renamedFrom() {
		if err == nil {
			err = s.deleteSet(ctx, kube.ApplySet{Plan: name})
		}
	}
	if err != nil && sum.ObjectsErr == nil {
		sum.ObjectsErr = err
	}
}

// renamedFrom are the former names of the plan that its hosts have found.
func (s *Session) renamedFrom() []string {
	i := slices.IndexFunc(s.hosts, func(h *hostRun) bool { return len(h.names) > 0 })
	if i < 0 {
		return nil
	}
	return s.hosts[i].names
}

// deleteSet deletes the parent of a former set that has no members any more.
func (s *Session) deleteSet(ctx context.Context, set kube.ApplySet) error {
	state, err := s.api.ApplySet(ctx, set)
	if err != nil || !state.Exists || state.Foreign || len(state.Members) > 0 {
		return err
	}
	return s.api.DeleteObject(ctx, kube.Member{Manifest: set.Parent(s.opt.Version, nil, nil)})
}

// unfinished is the parent of the set, where it still lists kinds or namespaces of objects that a run deleted before
// it was stopped; nil = it lists none of them.
func (s *Session) unfinished(state kube.SetState, wanted []kube.Manifest) *ObjectRemoval {
	parent := s.set().Parent(s.opt.Version, nil, nil)
	kinds, namespaces := []string{}, []string{parent.Namespace}
	note := func(m kube.Manifest) {
		kinds, namespaces = append(kinds, m.GroupKind()), append(namespaces, m.Space())
	}
	for _, m := range wanted {
		if !m.Existing {
			note(m)
		}
	}
	for _, m := range state.Members {
		note(m.Manifest)
	}
	var extra []string
	for _, kind := range state.Kinds {
		if !slices.Contains(kinds, kind) {
			extra = append(extra, kind)
		}
	}
	for _, namespace := range state.Namespaces {
		if !slices.Contains(namespaces, namespace) {
			extra = append(extra, "namespace "+namespace)
		}
	}
	if !state.Exists || len(extra) == 0 {
		return nil
	}
	return &ObjectRemoval{Member: kube.Member{Manifest: parent},
		Finishes: "a run that was stopped left " + strings.Join(extra, ", ") + " in the list of what it has"}
}

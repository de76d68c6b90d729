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

// notKnown stands for a value that is known only later while a manifest is read for the names of its objects.
const notKnown = "value-that-is-known-later"

// objectsOf are the objects that the plan's steps make, each with a known kind and namespace; known is false while the
// plan may make others, or one has a name that is known only later. Of a manifest with references nothing but these
// names may be used.
func (s *Session) objectsOf() (out []kube.Manifest, known bool) {
	seen := map[string]bool{}
	known = true
	for _, n := range s.plan.Nodes {
		for _, spec := range n.Steps {
			if kinds.Of(spec).Objects == nil || seen[sharedKey(spec)] {
				continue
			}
			seen[sharedKey(spec)] = true
			list, err := objectsOfStep(spec)
			known = known && err == nil
			for _, m := range list {
				known = known && !strings.Contains(m.Name, notKnown)
				if strings.Contains(m.APIVersion+" "+m.Kind+" "+m.Namespace, notKnown) {
					known = false
					continue
				}
				out = append(out, m)
			}
		}
	}
	return out, known
}

// objectsOfStep are the objects of a step, with notKnown for each reference. That they cannot be read without its
// value is an error.
func objectsOfStep(spec steps.Spec) ([]kube.Manifest, error) {
	values := map[string]string{}
	for _, r := range steps.ArgRefs(spec.Args) {
		values[r] = notKnown
	}
	spec.Args = steps.ResolveArgs(spec.Args, values)
	step, k, err := kinds.Catalog().Decode(spec)
	if err != nil {
		return nil, err
	}
	return k.Objects(step)
}

// set is the plan's set of objects.
func (s *Session) set() kube.ApplySet { return kube.ApplySet{Plan: s.planName()} }

// firstSet reads the plan's set once, before anything is changed.
func (s *Session) firstSet(ctx context.Context, api kube.API) (kube.SetState, error) {
	s.firstOnce.Do(func() { s.first, s.firstErr = api.ApplySet(ctx, s.set()) })
	return s.first, s.firstErr
}

// findObjects finds the objects that the plan made and no longer names, by their labels. Of a part of the plan's
// nodes or steps it finds none. That the set cannot be read is a warning: nothing of the plan depends on it.
func (s *Session) findObjects(ctx context.Context) []ObjectRemoval {
	if !s.whole() || s.open(ctx) != nil {
		return nil
	}
	api, err := s.cluster(ctx)
	if err != nil {
		return nil // reported with the hosts
	}
	state, err := s.firstSet(ctx, api)
	var out []ObjectRemoval
	if err == nil {
		out, err = s.formerObjects(ctx, api, state)
	}
	if err != nil && ctx.Err() == nil {
		s.emit(event.Warning{Detail: err.Error(),
			Summary: "it is not known whether the cluster has objects that the plan no longer names"})
	}
	return out
}

// whole reports whether the run has all of the plan's nodes with all of their steps.
func (s *Session) whole() bool {
	return s.plan.Cluster != nil && len(s.opt.Members) == len(s.plan.Nodes) &&
		!slices.ContainsFunc(s.hosts, func(h *hostRun) bool { return h.node.Partial })
}

// formerObjects are the members of the set that no step makes, in the order in which they are deleted.
func (s *Session) formerObjects(ctx context.Context, api kube.API, state kube.SetState) (out []ObjectRemoval,
	err error) {
	wanted, known := s.objectsOf()
	if !known || state.Foreign {
		return nil, nil
	}
	members := slices.Clone(state.Members)
	for _, name := range s.renamed {
		former, err := api.ApplySet(ctx, kube.ApplySet{Plan: name})
		if err != nil {
			return nil, err
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
	if len(members) > len(state.Members) {
		state.Former = nil // what has members there is in the list by itself
	}
	if o := s.unfinished(state, wanted); o != nil {
		out = append(out, *o)
	}
	slices.SortStableFunc(out, func(a, b ObjectRemoval) int { // those in namespaces first
		return cmp.Or(strings.Compare(b.Namespace, a.Namespace), strings.Compare(a.String(), b.String()))
	})
	return out, nil
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

// noteNames makes the parent of the set say which names the plan had, before the first Node gets the new one: what
// a run that died has left under them is found.
func (s *Session) noteNames(ctx context.Context) error {
	if len(s.renamed) == 0 {
		return nil
	}
	return s.joinSet(ctx)
}

// joinSet makes the parent of the set say which kinds and namespaces its members have, once in a run and before
// the first of them is made: what a run that died has made is found.
func (s *Session) joinSet(ctx context.Context) error {
	s.setOnce.Do(func() {
		state, err := s.api.ApplySet(ctx, s.set())
		if err == nil {
			err = s.writeSet(ctx, state, state.Kinds, state.Namespaces, s.namesBefore(state)...)
		}
		s.setErr = err
	})
	return s.setErr
}

// namesBefore are the former names of the plan, those that this run cannot look for included.
func (s *Session) namesBefore(state kube.SetState) []string {
	names := slices.Concat(state.Former, s.renamed)
	slices.Sort(names)
	return slices.Compact(names)
}

// writeSet writes the parent for the plan's objects and for others of these kinds and namespaces.
func (s *Session) writeSet(ctx context.Context, state kube.SetState, groupKinds, namespaces []string,
	former ...string) error {
	wanted, _ := s.objectsOf()
	groupKinds, namespaces = slices.Clone(groupKinds), slices.Clone(namespaces)
	for _, m := range wanted {
		if m.Existing {
			continue
		}
		groupKinds, namespaces = append(groupKinds, m.GroupKind()), append(namespaces, m.Space())
	}
	parent := s.set().Parent(s.opt.Version, groupKinds, namespaces, former...)
	switch {
	case state.Foreign:
		return &steps.Error{Code: steps.CodeFailed, Summary: "ApplySet of another tool",
			Detail: "the " + parent.String() + " is the parent of an ApplySet that another tool made",
			Remedy: "rename the plan's cluster block, or delete the ConfigMap"}
	case state.Says(parent):
		return nil
	case len(groupKinds)+len(former) > 0:
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
	if _, known := s.objectsOf(); !known || failed || !s.whole() ||
		len(s.renamed) == 0 && !slices.ContainsFunc(s.former, goes) {
		return
	}
	state, err := s.api.ApplySet(ctx, s.set()) // again: others may have changed them since
	var list []ObjectRemoval
	if err == nil {
		list, err = s.formerObjects(ctx, s.api, state)
	}
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
	var former []string
	for _, name := range s.renamed {
		stays, err := s.deleteSet(ctx, kube.ApplySet{Plan: name})
		if sum.ObjectsErr == nil {
			sum.ObjectsErr = err
		}
		if stays || err != nil {
			former = append(former, name)
		}
	}
	if err := s.writeSet(ctx, state, groupKinds, namespaces, former...); sum.ObjectsErr == nil {
		sum.ObjectsErr = err
	}
}

// deleteSet deletes the parent of a former set that has no members any more; stays: it has some.
func (s *Session) deleteSet(ctx context.Context, set kube.ApplySet) (stays bool, err error) {
	state, err := s.api.ApplySet(ctx, set)
	if err != nil || !state.Exists || state.Foreign || len(state.Members) > 0 {
		return len(state.Members) > 0, err
	}
	return false, s.api.DeleteObject(ctx, kube.Member{Manifest: set.Parent(s.opt.Version, nil, nil)})
}

// unfinished is the parent of the set, where it still lists kinds or namespaces of objects that a run deleted before
// it was stopped, or a former name of the plan; nil = it lists none of them.
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
	switch {
	case !state.Exists:
		return nil
	case len(state.Former) > 0:
		return &ObjectRemoval{Member: kube.Member{Manifest: parent},
			Finishes: "a run that was stopped did not complete the renaming from " + strings.Join(state.Former, ", ")}
	case len(extra) == 0:
		return nil
	}
	return &ObjectRemoval{Member: kube.Member{Manifest: parent},
		Finishes: "a run that was stopped left " + strings.Join(extra, ", ") + " in the list of what it has"}
}

package check

import (
	"slices"
	"strings"

	"nodejoin/plan/compat"
)

// contradicted is the operating system of a pod that names two.
const contradicted = "contradicted"

// system is the operating system that a pod is for: "windows", "linux", contradicted, or "" if nothing says.
func (k *checker) system(spec value) string {
	where := k.selection(spec).systems()
	by := ""
	if len(where) == 1 {
		by = where[0]
	}
	name := spec.at("os", "name")
	if os := name.str(); os != "" {
		if by != "" && by != os {
			k.find("os-mismatch", name, "spec.os.name is %q, but the pod selects nodes with %q", os, by)
			return contradicted
		}
		return os
	}
	if by == "" && len(where) == 0 {
		for _, c := range containers(spec) {
			if build, _ := imageBuild(c.get("image").str()); build != 0 {
				if !k.hasUnknownClass(spec) { // whose selector may name it
					k.find("no-os", c.get("image"), "the image %s is for Windows", c.get("image").str())
				}
				return "windows"
			}
		}
	}
	return by
}

// selection is that of the pod with that of its class, as the admission of RuntimeClass
// merges them.
func (k *checker) selection(spec value) selection {
	s := selectionOf(spec)
	if class, ok := k.classOf(spec); ok {
		var keys []string
		for key := range class.NodeSelector {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			s.all = append(s.all, requirement{value: spec.get("runtimeClassName"), key: key, operator: "In",
				values: []string{class.NodeSelector[key]}})
		}
	}
	return s
}

// anywhere checks a pod that does not say its operating system.
func (k *checker) anywhere(spec value) {
	if k.unknownClass(spec) {
		return // it may name it
	}
	s := k.selection(spec)
	for _, n := range k.cluster.Nodes {
		if a, _ := s.met(n); a == yes && len(k.untolerated(spec, n)) == 0 {
			k.find("any-os", spec.get("containers"), "the pod can be scheduled on the Windows node %s", n.Name)
			return
		}
	}
}

// places returns the Windows nodes on which a pod can run and reports why there are none.
func (k *checker) places(spec value) []Node {
	s := k.selection(spec)
	k.labels(s)
	for i, t := range s.terms {
		if len(t) == 0 {
			k.find("empty-term", spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
				"nodeSelectorTerms").list()[i], "term %d has no requirement", i+1)
		}
	}
	k.unknownClass(spec)
	var out, perhaps []Node
	var failed, doubtful requirement
	for _, n := range k.cluster.Nodes {
		switch a, why := s.met(n); {
		case a == yes:
			out = append(out, n)
		case a == unknown:
			perhaps = append(perhaps, n)
			doubtful = why
		case failed.key == "":
			failed = why
		}
	}
	switch {
	case len(out) > 0:
	case len(perhaps) > 0:
		id := "selector-unknown"
		if doubtful.key == buildLabel {
			id = "build-unknown" // the kubelet sets it
		}
		k.find(id, at(doubtful, spec), "the pod wants %s", doubtful)
		out = perhaps
	case failed.key == "": // only empty terms, which are already reported
		return nil
	default:
		k.find("selector", at(failed, spec), "the pod wants %s; %s", failed, k.instead(failed))
		return nil
	}
	var tolerated []Node
	for _, n := range out {
		if len(k.untolerated(spec, n)) == 0 {
			tolerated = append(tolerated, n)
		}
	}
	if len(tolerated) == 0 {
		t := k.untolerated(spec, out[0])[0]
		where := spec.get("tolerations")
		if !where.there() {
			where = spec.get("containers")
		}
		text := t.Key + ":" + t.Effect
		if t.Value != "" {
			text = t.Key + "=" + t.Value + ":" + t.Effect
		}
		k.find("taint", where, "the Node %s has the taint %s", out[0].Name, text)
		return out // other problems there are worth reporting
	}
	return tolerated
}

func at(q requirement, spec value) value {
	if q.there() {
		return q.value
	}
	return spec
}

// instead says what the nodes of the plan have.
func (k *checker) instead(q requirement) string {
	var have []string
	for _, n := range k.cluster.Nodes {
		v, there := n.Labels[q.key]
		if q.field {
			v, there = n.Name, true
		}
		if there && !slices.Contains(have, v) {
			have = append(have, v)
		}
	}
	if len(have) == 0 {
		return "no Windows node of the plan has that label"
	}
	slices.Sort(have)
	return "the Windows nodes of the plan have " + strings.Join(have, ", ")
}

// labels warns about keys that have a successor.
func (k *checker) labels(s selection) {
	for _, q := range slices.Concat(append([][]requirement{s.all}, s.terms...)...) {
		if v := compat.CheckLabel(q.key, k.cluster.Kubernetes); (v.Status == compat.Deprecated ||
			v.Status == compat.Removed) && !q.field {
			k.find("deprecated-label", q.value, "the label %s: %s; its successor is %s", q.key, v.Why, v.Instead)
		}
	}
}

package check

import (
	"slices"
	"strconv"
	"strings"

	"nodejoin/plan/compat"
)

const (
	osLabel     = "kubernetes.io/os"
	betaOSLabel = "beta.kubernetes.io/os"
	buildLabel  = "node.kubernetes.io/windows-build"
)

// answer is whether something matches; labels that others may set make it unknown.
type answer int

const (
	no answer = iota
	unknown
	yes
)

// requirement is one that a node must meet, with its position.
type requirement struct {
	value
	key, operator string
	values        []string
	field         bool // of the Node object itself: metadata.name
}

func (q requirement) String() string {
	switch q.operator {
	case "Exists", "DoesNotExist":
		return q.key + " " + q.operator
	case "In":
		if len(q.values) == 1 {
			return q.key + "=" + q.values[0]
		}
	}
	return q.key + " " + q.operator + " [" + strings.Join(q.values, ", ") + "]"
}

// ownLabels are set by the kubelet, so the plan knows all of them.
var ownLabels = []string{osLabel, betaOSLabel, "kubernetes.io/arch", "beta.kubernetes.io/arch",
	"kubernetes.io/hostname", buildLabel}

// met reports whether a node meets it (k8s.io/component-helpers scheduling/corev1/nodeaffinity).
func (q requirement) met(n Node) answer {
	have, there := n.Labels[q.key]
	if q.field {
		have, there = n.Name, q.key == "metadata.name"
	}
	if q.key == buildLabel && n.Build == "" && !q.field {
		return unknown
	}
	if !there && !q.field && !slices.Contains(ownLabels, q.key) {
		if q.operator == "NotIn" || q.operator == "DoesNotExist" {
			return yes
		}
		return unknown
	}
	is := func(b bool) answer {
		if b {
			return yes
		}
		return no
	}
	switch q.operator {
	case "In":
		return is(there && slices.Contains(q.values, have))
	case "NotIn":
		return is(!there || !slices.Contains(q.values, have))
	case "Exists":
		return is(there)
	case "DoesNotExist":
		return is(!there)
	case "Gt", "Lt":
		a, errA := strconv.ParseInt(have, 10, 64)
		if len(q.values) != 1 || errA != nil {
			return no
		}
		b, errB := strconv.ParseInt(q.values[0], 10, 64)
		return is(errB == nil && (q.operator == "Gt" && a > b || q.operator == "Lt" && a < b))
	}
	return unknown
}

// selection is what a pod demands of its node: all of all, and one of the terms where
// there are any.
type selection struct {
	all   []requirement
	terms [][]requirement // of the affinity; nil = it has none
}

func texts(v value) []string {
	var out []string
	for _, e := range v.list() {
		out = append(out, e.str())
	}
	return out
}

// selectionOf reads nodeSelector, nodeName and the required node affinity.
func selectionOf(spec value) selection {
	var s selection
	for _, p := range spec.get("nodeSelector").pairs() {
		s.all = append(s.all, requirement{value: p.value, key: p.key, operator: "In", values: []string{p.str()}})
	}
	if v := spec.get("nodeName"); v.str() != "" {
		s.all = append(s.all, requirement{value: v, key: "metadata.name", operator: "In",
			values: []string{v.str()}, field: true})
	}
	required := spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	for _, t := range required.get("nodeSelectorTerms").list() {
		term := []requirement{}
		for _, sort := range []string{"matchExpressions", "matchFields"} {
			for _, e := range t.get(sort).list() {
				term = append(term, requirement{value: e, key: e.get("key").str(), operator: e.get("operator").str(),
					values: texts(e.get("values")), field: sort == "matchFields"})
			}
		}
		s.terms = append(s.terms, term)
	}
	return s
}

// met reports whether a node can be the pod's; failed is a requirement that is not met.
func (s selection) met(n Node) (a answer, failed requirement) {
	a = yes
	for _, q := range s.all {
		if m := q.met(n); m < a {
			a, failed = m, q
		}
	}
	if s.terms == nil {
		return a, failed
	}
	best, why := no, requirement{}
	for _, term := range s.terms {
		if len(term) == 0 {
			continue // it matches nothing
		}
		t, miss := (selection{all: term}).met(n)
		if t > best {
			best = t
		}
		if t < yes && why.key == "" {
			why = miss
		}
	}
	if best < a {
		a, failed = best, why
	}
	return a, failed
}

// build is the Windows build that all nodes must have; "" if none is required.
func (s selection) build() string {
	for _, q := range s.all {
		if q.key == buildLabel && q.operator == "In" && len(q.values) == 1 {
			return q.values[0]
		}
	}
	return ""
}

// systems are the values of the operating-system label that meet all requirements: nil = any.
func (s selection) systems() []string {
	of := func(list []requirement) []string {
		for _, q := range list {
			if (q.key == osLabel || q.key == betaOSLabel) && q.operator == "In" {
				return q.values
			}
			if (q.key == osLabel || q.key == betaOSLabel) && q.operator == "NotIn" { // there are only two
				return slices.DeleteFunc([]string{"linux", "windows"}, func(os string) bool {
					return slices.Contains(q.values, os)
				})
			}
			if q.key == buildLabel && (q.operator == "In" || q.operator == "Exists") {
				return []string{"windows"}
			}
		}
		return nil
	}
	if out := of(s.all); out != nil {
		return out
	}
	var out []string
	for _, t := range s.terms {
		if len(t) == 0 {
			continue // it matches nothing
		}
		one := of(t)
		if one == nil {
			return nil
		}
		out = append(out, one...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

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

// classOf returns the class of a pod; ok is false if it has none, or an unknown one.
func (k *checker) classOf(spec value) (Class, bool) {
	name := spec.get("runtimeClassName").str()
	i := slices.IndexFunc(k.cluster.Classes, func(c Class) bool { return c.Name == name })
	if name == "" || i < 0 {
		return Class{}, false
	}
	return k.cluster.Classes[i], true
}

// hasUnknownClass reports that a pod names a class that neither the plan nor the files have.
func (k *checker) hasUnknownClass(spec value) bool {
	_, ok := k.classOf(spec)
	return !ok && spec.get("runtimeClassName").str() != ""
}

// unknownClass reports such a class.
func (k *checker) unknownClass(spec value) bool {
	if !k.hasUnknownClass(spec) {
		return false
	}
	v := spec.get("runtimeClassName")
	k.find("runtime-class", v, "unknown RuntimeClass %q", v.str())
	return true
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

// classesOf returns the RuntimeClass that an object is.
func classesOf(o object) []Class {
	if o.kind() != "RuntimeClass" {
		return nil
	}
	c := Class{Name: o.at("metadata", "name").str(), Handler: o.get("handler").str(), NodeSelector: map[string]string{},
		Tolerations: tolerations(o.at("scheduling", "tolerations"))}
	for _, p := range o.at("scheduling", "nodeSelector").pairs() {
		c.NodeSelector[p.key] = p.str()
	}
	return []Class{c}
}

// class checks a RuntimeClass for Windows.
func (k *checker) class() {
	c := classesOf(k.object)[0]
	if os := c.NodeSelector[osLabel]; os != "" && os != "windows" ||
		os == "" && !strings.HasPrefix(c.Handler, "runhcs-") && c.Handler != compat.HandlerDocker {
		return
	}
	v := compat.CheckRuntimeClass(k.object.get("apiVersion").str(), c.Handler, k.cluster.Runtime, k.cluster.Kubernetes)
	if v.Accepted() {
		return
	}
	at := k.object.get("handler")
	if v.Status == compat.Removed || v.Status == compat.NotYet {
		at = k.object.get("apiVersion")
	}
	k.find("runtime-class-handler", at, "%s of %s: %s; instead: %s", c.Handler, k.object.get("apiVersion").str(),
		v.Why, v.Instead)
}

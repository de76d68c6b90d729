package check

import (
	"slices"
	"strconv"
	"strings"
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

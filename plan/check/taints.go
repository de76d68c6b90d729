package check

import (
	"slices"

	"nodejoin/steps/kube"
)

// toleration of a pod or of a RuntimeClass.
type toleration struct{ Key, Operator, Value, Effect string }

func tolerations(v value) []toleration {
	var out []toleration
	for _, t := range v.list() {
		out = append(out, toleration{t.get("key").str(), t.get("operator").str(), t.get("value").str(),
			t.get("effect").str()})
	}
	return out
}

// tolerates is k8s.io/component-helpers scheduling/corev1 ToleratesTaint.
func (t toleration) tolerates(x kube.Taint) bool {
	switch {
	case t.Effect != "" && t.Effect != x.Effect, t.Key != "" && t.Key != x.Key:
		return false
	case t.Operator == "Exists":
		return true
	}
	return t.Key != "" && t.Value == x.Value // Equal, which is the default
}

// untolerated returns the taints of a node that keep a pod off it.
func (k *checker) untolerated(spec value, n Node) []kube.Taint {
	list := tolerations(spec.get("tolerations"))
	if class, ok := k.classOf(spec); ok {
		list = append(list, class.Tolerations...)
	}
	var out []kube.Taint
	sent := spec.get("nodeName").str() != "" // bypasses the scheduler
	for _, x := range n.Taints {
		if x.Effect == "PreferNoSchedule" || sent && x.Effect == "NoSchedule" ||
			slices.ContainsFunc(list, func(t toleration) bool { return t.tolerates(x) }) {
			continue
		}
		out = append(out, x)
	}
	return out
}

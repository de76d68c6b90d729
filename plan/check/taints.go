package check

import (
	"slices"

	"nodejoin/steps/kube"
)

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

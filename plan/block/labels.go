package block

import (
	"maps"
	"regexp"
	"slices"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/steps/kube"
)

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// sameTaint returns the index of the taint with the same key and effect, of which a Node has
// one; -1 without one.
func sameTaint(list []kube.Taint, t kube.Taint) int {
	return slices.IndexFunc(list, func(o kube.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
}

var stepNameRE = regexp.MustCompile(`^[a-z0-9_]+$`)

// ownLabels are set by the kubelet itself, from what it runs on (kubernetes
// pkg/kubelet/kubelet_node_status.go).
var ownLabels = map[string]bool{"kubernetes.io/os": true, "kubernetes.io/arch": true, "kubernetes.io/hostname": true,
	"node.kubernetes.io/windows-build": true}

// labelKeys checks the keys of labels and taints.
func labelKeys(s *eval.Section, labels map[string]string, taints []kube.Taint, version string) {
	if version == "" {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		v := compat.CheckLabel(key, version)
		switch {
		case ownLabels[key]:
			s.FailAt(s.AtKey("labels", key), "label that the kubelet sets",
				"The kubelet gives its Node the label %q from what it runs on, and would set it back. Remove it.", key)
		case v.Status == compat.Deprecated || v.Status == compat.Removed:
			s.Scope.Warn(s.AtKey("labels", key), "deprecated label", "The label %q: %s%s", key, v.Why, Instead(v))
		}
	}
	for i, b := range s.Blocks.OfType("taint") {
		if i >= len(taints) {
			break
		}
		v := compat.CheckLabel(taints[i].Key, version)
		if v.Status == compat.Deprecated || v.Status == compat.Removed {
			s.Scope.Warn(b.DefRange, "deprecated label",
				"The taint %q: %s, so what tolerates the one does not tolerate the other%s", taints[i].Key, v.Why, Instead(v))
		}
	}
}

// settingName checks the label of a block, which becomes part of a step's name.
func settingName(s *eval.Section) {
	if len(s.Block.Labels) > 0 && (!stepNameRE.MatchString(s.Block.Labels[0]) ||
		len(s.Block.Labels[0]) > maxStepName-10) {
		s.FailAt(s.Block.LabelRanges[0], "invalid name", "%q cannot be the name of this block: it has lower-case "+
			"letters, digits and '_', at most %d, since it becomes the name of a step.", s.Block.Labels[0], maxStepName-10)
	}
}

// maxStepName bounds the names of steps, which are on every line of output.
const maxStepName = 100

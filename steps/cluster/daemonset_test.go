package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"nodejoin/steps/kube"
)

func TestDaemonSetWantsNode(t *testing.T) {
	node := kube.Node{Name: "win-1", Labels: map[string]string{"kubernetes.io/os": "windows", "pool": "a"},
		Taints: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"},
			{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}, {Key: "soft", Effect: "PreferNoSchedule"}}}
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	term := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: op, Values: values}}}
	}
	all := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	linux, windows := map[string]string{"kubernetes.io/os": "linux"}, map[string]string{"kubernetes.io/os": "windows"}
	type spec = corev1.PodSpec
	name, class := "win-2", "windows-2022"
	for what, c := range map[string]struct {
		spec        corev1.PodSpec
		wants, says bool
	}{
		"everywhere": {spec{Tolerations: all},
			true, false},
		"no toleration": {spec{},
			false, false},
		"its toleration": {spec{Tolerations: []corev1.Toleration{{Key: "os", Value: "windows"}}},
			true, false},
		"another value": {spec{Tolerations: []corev1.Toleration{{Key: "os", Value: "linux"}}},
			false, false},
		"another effect": {spec{Tolerations: []corev1.Toleration{{Operator: "Exists", Effect: "NoExecute"}}},
			false, false},
		"for Linux": {spec{Tolerations: all, NodeSelector: linux},
			false, true},
		"for Windows": {spec{Tolerations: all, NodeSelector: windows},
			true, true},
		"another Node": {spec{Tolerations: all, NodeName: name},
			false, false},
		"a RuntimeClass": {spec{Tolerations: all, RuntimeClassName: &class},
			true, true},
		"Linux, affinity": {spec{Tolerations: all, Affinity: affinity(term("kubernetes.io/os", "In", "linux"))},
			false, true},
		"second term": {spec{Tolerations: all, Affinity: affinity(term("x", "Exists"), term("pool", "In", "a"))},
			true, false},
		"not in": {spec{Tolerations: all, Affinity: affinity(term("pool", "NotIn", "a"))},
			false, false},
		"absent": {spec{Tolerations: all, Affinity: affinity(term("x", "DoesNotExist"))},
			true, false},
		"an empty term": {spec{Tolerations: all, Affinity: affinity(corev1.NodeSelectorTerm{})},
			false, false},
		"by its name": {spec{Tolerations: all, Affinity: affinity(corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In",
				Values: []string{name}}}})},
			false, false},
	} {
		if have := wants(c.spec, node); have != c.wants || namesOS(c.spec) != c.says {
			t.Errorf("%s: wanted %t, names its system %t", what, have, namesOS(c.spec))
		}
	}
}

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// daemonSet holds the fields of a DaemonSet (apps/v1) that decide where its pods run.
type daemonSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// DaemonSets lists those that want a pod on a node.
func (k *client) DaemonSets(ctx context.Context, node kube.Node) (out []kube.DaemonSet, err error) {
	const what = "listing the DaemonSets"
	for next := ""; ; {
		r := k.any.Get().AbsPath("/apis/apps/v1/daemonsets").Param("limit", fmt.Sprint(listLimit)).
			Param("continue", next)
		body, err := r.Do(ctx).Raw()
		if err != nil {
			return nil, k.fail(ctx, what, err)
		}
		var list struct {
			metav1.ListMeta `json:"metadata"`
			Items           []daemonSet `json:"items"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		for _, d := range list.Items {
			if spec := d.Spec.Template.Spec; wants(spec, node) {
				out = append(out, kube.DaemonSet{Namespace: d.Namespace, Name: d.Name,
					Created: d.CreationTimestamp.Time, NamesOS: namesOS(spec)})
			}
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	slices.SortFunc(out, func(a, b kube.DaemonSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// wants reports whether the DaemonSet controller makes such a pod on a node (kubernetes
// pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod).
func wants(spec corev1.PodSpec, node kube.Node) bool {
	if spec.NodeName != "" && spec.NodeName != node.Name {
		return false
	}
	for key, v := range spec.NodeSelector {
		if have, ok := node.Labels[key]; !ok || have != v {
			return false
		}
	}
	fits := func(t corev1.NodeSelectorTerm) bool { return matches(t, node) }
	if r := requiredAffinity(spec); r != nil && !slices.ContainsFunc(r.NodeSelectorTerms, fits) {
		return false
	}
	return !slices.ContainsFunc(node.Taints, func(t kube.Taint) bool {
		return t.Effect != string(corev1.TaintEffectPreferNoSchedule) &&
			!strings.HasPrefix(t.Key, "node.kubernetes.io/") &&
			!slices.ContainsFunc(spec.Tolerations, func(x corev1.Toleration) bool { return tolerates(x, t) })
	})
}

func requiredAffinity(spec corev1.PodSpec) *corev1.NodeSelector {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func matches(t corev1.NodeSelectorTerm, node kube.Node) bool {
	for _, r := range t.MatchFields {
		if (r.Operator == corev1.NodeSelectorOpIn) != slices.Contains(r.Values, node.Name) {
			return false
		}
	}
	for _, r := range t.MatchExpressions {
		have, ok := node.Labels[r.Key]
		switch r.Operator {
		case corev1.NodeSelectorOpExists:
		case corev1.NodeSelectorOpDoesNotExist:
			ok = !ok
		case corev1.NodeSelectorOpIn:
			ok = ok && slices.Contains(r.Values, have)
		case corev1.NodeSelectorOpNotIn:
			ok = !ok || !slices.Contains(r.Values, have)
		default: // Gt and Lt are for numbers, which decide no operating system
			ok = false
		}
		if !ok {
			return false
		}
	}
	return len(t.MatchFields)+len(t.MatchExpressions) > 0
}

func tolerates(x corev1.Toleration, t kube.Taint) bool {
	return (x.Effect == "" || string(x.Effect) == t.Effect) && (x.Key == t.Key || x.Key == "") &&
		(x.Operator == corev1.TolerationOpExists || x.Key != "" && x.Value == t.Value)
}

// namesOS reports whether the pods say on which operating system they run.
func namesOS(spec corev1.PodSpec) bool {
	const label, former = corev1.LabelOSStable, "beta.kubernetes.io/os"
	if spec.OS != nil || spec.NodeSelector[label] != "" || spec.NodeSelector[former] != "" ||
		spec.NodeSelector[corev1.LabelWindowsBuild] != "" || spec.RuntimeClassName != nil {
		return true
	}
	required := requiredAffinity(spec)
	return required != nil && slices.ContainsFunc(required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == label || r.Key == former
		})
	})
}

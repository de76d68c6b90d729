package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/util/retry"

	"nodejoin/steps/kube"
)

// Info asks for the version; the rest is of the kubeconfig.
func (k *client) Info(ctx context.Context) (kube.Info, error) {
	const what = "asking for the version of the cluster"
	b, err := k.core.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return kube.Info{}, k.fail(ctx, what, err)
	}
	var v version.Info
	if err := json.Unmarshal(b, &v); err != nil || v.GitVersion == "" {
		return kube.Info{}, fmt.Errorf("%s: %s answers, but not as an API server does", what, k.server)
	}
	return kube.Info{Server: k.server, CA: k.ca.pem, CAHash: k.ca.hash, Version: v.GitVersion}, nil
}

// Node reads one Node.
func (k *client) Node(ctx context.Context, name string) (kube.Node, error) {
	n, err := k.core.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return kube.Node{}, k.fail(ctx, "reading the Node "+name, err)
	}
	return nodeOf(n), nil
}

func nodeOf(n *corev1.Node) kube.Node {
	out := kube.Node{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations, PodCIDR: podCIDR(n),
		KubeletVersion: n.Status.NodeInfo.KubeletVersion, Unschedulable: n.Spec.Unschedulable}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
			out.ReadyReason = strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); out.InternalIP == "" || err == nil && ip.Is4() {
			out.InternalIP = a.Address
			if ip.Is4() {
				break
			}
		}
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, kube.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// podCIDR is the IPv4 one of a dual-stack Node: Windows pod networks are IPv4 first.
func podCIDR(n *corev1.Node) string {
	for _, c := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(c); err == nil && p.Addr().Is4() {
			return c
		}
	}
	return n.Spec.PodCIDR
}

// SetLabels is one merge patch: labels that are not named in it stay.
func (k *client) SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error {
	labels := map[string]any{}
	for _, l := range remove {
		labels[l] = nil
	}
	for l, v := range set {
		labels[l] = v
	}
	if len(labels) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	_, err = k.core.Nodes().Patch(ctx, node, types.MergePatchType, b, metav1.PatchOptions{FieldManager: k.manager})
	return k.fail(ctx, "labelling the Node "+node, err)
}

// conflictPace: a Node that has just registered is written by several controllers
// at once, each within milliseconds.
var conflictPace = wait.Backoff{Steps: 12, Duration: 10 * time.Millisecond, Factor: 1.6, Jitter: 0.2, Cap: time.Second}

// SetTaints replaces the list of taints, which the API knows only as a whole: the
// patch names the version that was read, and is made anew when another writer came
// between.
func (k *client) SetTaints(ctx context.Context, node string, set, remove []kube.Taint) error {
	err := retry.RetryOnConflict(conflictPace, func() error {
		n, err := k.core.Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		taints, changed := mergeTaints(n.Spec.Taints, set, remove)
		if !changed {
			return nil
		}
		b, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
			"spec":     map[string]any{"taints": taints},
		})
		if err != nil {
			return err
		}
		_, err = k.core.Nodes().Patch(ctx, node, types.MergePatchType, b, metav1.PatchOptions{FieldManager: k.manager})
		if apierrors.IsConflict(err) && ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	})
	return k.fail(ctx, "tainting the Node "+node, err)
}

// mergeTaints adds or updates those of set and drops those of remove, both by key
// and effect; the others keep their place and all their fields.
func mergeTaints(have []corev1.Taint, set, remove []kube.Taint) (out []corev1.Taint, changed bool) {
	out = slices.Clone(have)
	if out == nil {
		out = []corev1.Taint{}
	}
	same := func(w kube.Taint) func(corev1.Taint) bool {
		return func(t corev1.Taint) bool { return t.Key == w.Key && string(t.Effect) == w.Effect }
	}
	for _, w := range remove {
		n := len(out)
		out = slices.DeleteFunc(out, same(w))
		changed = changed || len(out) != n
	}
	for _, w := range set {
		i := slices.IndexFunc(out, same(w))
		switch {
		case i < 0:
			out = append(out, corev1.Taint{Key: w.Key, Value: w.Value, Effect: corev1.TaintEffect(w.Effect)})
			changed = true
		case out[i].Value != w.Value:
			out[i].Value, changed = w.Value, true
		}
	}
	return out, changed
}

// newestFirst orders by time, and by name where that has the same second.
func newestFirst(a, b kube.SigningRequest) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

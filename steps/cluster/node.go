package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"nodejoin/steps/kube"
)

// Info requests the version; the rest comes from the kubeconfig.
func (k *client) Info(ctx context.Context) (kube.Info, error) {
	return shared(ctx, &k.asks, "version", func() (kube.Info, error) { return k.info(ctx) })
}

func (k *client) info(ctx context.Context) (kube.Info, error) {
	const what = "requesting the version of the cluster"
	b, err := answer(k.core.rest.Get().AbsPath("/version").Do(ctx))
	if err != nil {
		return kube.Info{}, k.fail(ctx, what, err)
	}
	var v version.Info
	if err := json.Unmarshal(b, &v); err != nil || v.GitVersion == "" {
		return kube.Info{}, fmt.Errorf("%s: %s responds, but not like an API server", what, k.server)
	}
	return kube.Info{Server: k.server, CA: k.ca.pem, CAHash: k.ca.hash, Version: v.GitVersion}, nil
}

// answer is the raw body. Result.Raw alone does not decode a Status.
func answer(r rest.Result) ([]byte, error) {
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}

// Node reads one Node, or takes it from the list of all.
func (k *client) Node(ctx context.Context, name string) (kube.Node, error) {
	switch n, ok := k.nodes.find(ctx, name); {
	case ok && n == nil:
		return kube.Node{}, fmt.Errorf("reading the Node %s: %w", name, fs.ErrNotExist)
	case ok:
		return *n, nil
	}
	n, err := k.core.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return kube.Node{}, k.fail(ctx, "reading the Node "+name, err)
	}
	return k.nodeOf(n), nil
}

// Close ends the watch of the Nodes.
func (k *client) Close() { k.nodes.close() }

func (k *client) nodeOf(n *corev1.Node) kube.Node {
	out := kube.Node{Name: n.Name, UID: string(n.UID), Labels: n.Labels, Annotations: n.Annotations, PodCIDR: podCIDR(n),
		KubeletVersion: n.Status.NodeInfo.KubeletVersion, Unschedulable: n.Spec.Unschedulable}
	if n.Spec.Unschedulable && !k.cordonedByOthers(n) {
		out.OwnCordon = n.Annotations[kube.CordonedBy]
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Heartbeat = c.LastHeartbeatTime.Time
			out.Ready = c.Status == corev1.ConditionTrue
			out.ReadyReason = strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
		if strings.HasPrefix(string(c.Type), kube.OwnCondition) {
			out.Conditions = append(out.Conditions, kube.Condition{Type: string(c.Type), Status: string(c.Status),
				Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time})
		}
	}
	slices.SortFunc(out.Conditions, func(a, b kube.Condition) int { return strings.Compare(a.Type, b.Type) })
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

// SetLabels sends one merge patch: labels that it does not name stay.
func (k *client) SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error {
	return k.fail(ctx, "labelling the Node "+node, k.setMetadata(ctx, node, "labels", set, remove))
}

// SetAnnotations sends one merge patch, as SetLabels.
func (k *client) SetAnnotations(ctx context.Context, node string, set map[string]string, remove []string) error {
	return k.fail(ctx, "annotating the Node "+node, k.setMetadata(ctx, node, "annotations", set, remove))
}

// SetCondition patches the status of the Node: the API server merges conditions by their type.
func (k *client) SetCondition(ctx context.Context, node string, c kube.Condition) error {
	b, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason,
		Message: c.Message, LastTransitionTime: metav1.NewTime(c.Since), LastHeartbeatTime: metav1.Now()}}}})
	if err != nil {
		return err
	}
	done := k.nodes.write(node)
	err = k.core.rest.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").
		Param("fieldManager", k.manager).Body(b).Do(ctx).Error()
	done(nil, err)
	return k.fail(ctx, "setting the condition "+c.Type+" of the Node "+node, err)
}

func (k *client) setMetadata(ctx context.Context, node, field string, set map[string]string, remove []string) error {
	values := map[string]any{}
	for _, l := range remove {
		values[l] = nil
	}
	for l, v := range set {
		values[l] = v
	}
	if len(values) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{field: values}})
	if err != nil {
		return err
	}
	done := k.nodes.write(node)
	n, err := k.core.Nodes().Patch(ctx, node, types.MergePatchType, b, metav1.PatchOptions{FieldManager: k.manager})
	done(n, err)
	return err
}

// retryConflict calls f again while other writers come between its read and its write.
func retryConflict(f func() error) error { return retry.OnError(conflictPace, apierrors.IsConflict, f) }

// conflictPace: several controllers write a Node that has just registered, within milliseconds.
var conflictPace = wait.Backoff{Steps: 12, Duration: 10 * time.Millisecond, Factor: 1.6, Jitter: 0.2, Cap: time.Second}

// SetTaints replaces the list of taints, which the API only knows as a whole. The patch applies only if the
// list is unchanged since it was read, and is built again if another writer changed it; writers of other
// fields (heartbeats) do not matter.
func (k *client) SetTaints(ctx context.Context, node string, set, remove []kube.Taint) error {
	done := k.nodes.write(node)
	var before []json.RawMessage
	var written *corev1.Node
	conflict := func(err error) bool { return apierrors.IsConflict(err) || errors.Is(err, errTaintsChanged) }
	err := retry.OnError(conflictPace, conflict, func() error {
		have, err := k.rawTaints(ctx, node)
		if err != nil {
			return err
		}
		before = have
		want, changed, err := mergeTaints(have, set, remove)
		if err != nil || !changed {
			written = &corev1.Node{} // of no version
			return err
		}
		// A test against null succeeds if the list is absent (RFC 6902 in the API server).
		b, err := json.Marshal([]patchOp{{"test", "/spec/taints", have}, {"add", "/spec/taints", want}})
		if err != nil {
			return err
		}
		written, err = k.core.Nodes().Patch(ctx, node, types.JSONPatchType, b, metav1.PatchOptions{FieldManager: k.manager})
		if !apierrors.IsInvalid(err) {
			return err
		}
		// Either the test failed, or the taints are invalid.
		now, e := k.rawTaints(ctx, node)
		if e == nil && !slices.EqualFunc(now, before, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			return fmt.Errorf("%w: %w", errTaintsChanged, err)
		}
		return err
	})
	done(written, err)
	return k.fail(ctx, "tainting the Node "+node, err)
}

var errTaintsChanged = errors.New("another writer keeps changing the taints")

// patchOp is an operation of a JSON patch.
type patchOp struct {
	Op    string            `json:"op"`
	Path  string            `json:"path"`
	Value []json.RawMessage `json:"value"`
}

// rawTaints reads the taints unparsed, so that fields unknown to this version are kept; nil if the Node has
// none.
func (k *client) rawTaints(ctx context.Context, node string) ([]json.RawMessage, error) {
	b, err := answer(k.core.rest.Get().Resource("nodes").Name(node).Do(ctx))
	if err != nil {
		return nil, err
	}
	var n struct {
		Spec struct {
			Taints []json.RawMessage `json:"taints"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("the response is not a Node: %w", err)
	}
	return n.Spec.Taints, nil
}

// mergeTaints adds or updates those of set and drops those of remove, both by key and effect; the others keep
// their position and all their fields.
func mergeTaints(have []json.RawMessage, set, remove []kube.Taint) (out []json.RawMessage, changed bool, err error) {
	out = []json.RawMessage{}
	add := slices.Clone(set)
	for _, raw := range have {
		var h kube.Taint
		if err := json.Unmarshal(raw, &h); err != nil {
			return nil, false, fmt.Errorf("a taint of the Node: %w", err)
		}
		same := func(w kube.Taint) bool { return w.Key == h.Key && w.Effect == h.Effect }
		i := slices.IndexFunc(add, same)
		switch {
		case i >= 0 && add[i].Value == h.Value:
			add = slices.Delete(add, i, i+1)
		case i >= 0, slices.ContainsFunc(remove, same):
			changed = true
			continue
		}
		out = append(out, raw)
	}
	for _, w := range add {
		raw, err := json.Marshal(w)
		if err != nil {
			return nil, false, err
		}
		out, changed = append(out, raw), true
	}
	return out, changed, nil
}

// newestFirst orders by time, and within a second by name.
func newestFirst(a, b kube.SigningRequest) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

// cordonedByOthers reports whether somebody else has cordoned the Node since nodejoin did: the field belongs
// to its last writer (Kubernetes documentation, "Server-Side Apply", field management of updates). If the
// field has no manager, nobody else has.
func (k *client) cordonedByOthers(n *corev1.Node) bool {
	others := false
	for _, m := range n.ManagedFields {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, has := fields.Spec["f:unschedulable"]; has {
			if m.Manager == k.manager {
				return false
			}
			others = true
		}
	}
	return others
}

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"nodejoin/steps/kube"
)

// listLimit is the size of a page; the API server returns the rest page by page.
const listLimit = 500

// Nodes lists all Nodes.
func (k *client) Nodes(ctx context.Context) ([]kube.Node, error) {
	list, err := shared(ctx, &k.asks, "Nodes", func() ([]corev1.Node, error) {
		list, _, err := k.listNodes(ctx, "")
		return list, err
	})
	out := make([]kube.Node, 0, len(list))
	for i := range list {
		out = append(out, k.nodeOf(&list[i]))
	}
	slices.SortFunc(out, byName)
	return out, err
}

func byName(a, b kube.Node) int { return cmp.Compare(a.Name, b.Name) }

// OutOfService lists the cordoned Nodes, which the API server selects. Whether the others are Ready is known from the
// list that this run watches; where it may not watch, it lists all.
func (k *client) OutOfService(ctx context.Context) ([]kube.Node, error) {
	out, watched := k.nodes.notReady(ctx)
	if !watched {
		all, err := k.Nodes(ctx)
		return slices.DeleteFunc(all, func(n kube.Node) bool { return !n.Out() }), err
	}
	cordoned, err := shared(ctx, &k.asks, "cordoned Nodes", func() ([]corev1.Node, error) {
		list, _, err := k.listNodes(ctx, "spec.unschedulable=true")
		return list, err
	})
	for i := range cordoned {
		n := k.nodeOf(&cordoned[i])
		out = slices.DeleteFunc(out, func(o kube.Node) bool { return o.Name == n.Name })
		out = append(out, n)
	}
	slices.SortFunc(out, byName)
	return out, err
}

// listNodes lists the Nodes that a field selector selects, "" all. It also returns the version of the list, from which
// on it can be watched.
func (k *client) listNodes(ctx context.Context, selector string) (out []corev1.Node, version string, err error) {
	o := metav1.ListOptions{Limit: listLimit, FieldSelector: selector}
	for {
		list, err := k.core.Nodes().List(ctx, o)
		if err != nil {
			return nil, "", k.fail(ctx, "listing the Nodes", err)
		}
		out = append(out, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			return out, list.ResourceVersion, nil
		}
	}
}

// watchNodes watches the Nodes for a while, from a version of their list on.
func (k *client) watchNodes(ctx context.Context, version string) (watch.Interface, error) {
	seconds := int64(watchFor / time.Second)
	nodes := k.core.Nodes()
	return nodes.of(nodes.rest.Get()).VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: version,
		AllowWatchBookmarks: true, TimeoutSeconds: &seconds}, nodes.params).Watch(ctx)
}

// Pods lists the pods of a node.
func (k *client) Pods(ctx context.Context, node string) ([]kube.Pod, error) {
	var out []kube.Pod
	o := metav1.ListOptions{Limit: listLimit, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	for {
		list, err := k.core.Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, k.fail(ctx, "listing the pods of "+node, err)
		}
		for i := range list.Items {
			out = append(out, podOf(&list.Items[i]))
		}
		if o.Continue = list.Continue; o.Continue == "" {
			slices.SortFunc(out, func(a, b kube.Pod) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			return out, nil
		}
	}
}

func podOf(p *corev1.Pod) kube.Pod {
	out := kube.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Ending: p.DeletionTimestamp != nil,
		Finished: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Created:  p.CreationTimestamp.Time}
	if !out.Finished {
		out.Waiting = waitingOf(p)
	}
	if c := metav1.GetControllerOf(p); c != nil {
		out.Controller, out.Owner = c.Kind, c.Name
	}
	_, out.Mirror = p.Annotations[corev1.MirrorPodAnnotationKey]
	for _, v := range p.Spec.Volumes {
		out.EmptyDir = out.EmptyDir || v.EmptyDir != nil
	}
	return out
}

// waitingOf returns why a container of a pod does not run; "" = all do.
func waitingOf(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	if p.Status.Phase == corev1.PodPending {
		return "Pending"
	}
	return ""
}

// Evict creates an eviction; 429 is a disruption budget (Kubernetes documentation, "API-initiated Eviction"),
// unless the API server is busy.
func (k *client) Evict(ctx context.Context, p kube.Pod) error {
	uid := types.UID(p.UID)
	err := k.core.Evict(ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}})
	what := "evicting the pod " + p.String()
	switch {
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return fmt.Errorf("%s: %w: %w", what, kube.ErrBudget, err)
	case apierrors.IsConflict(err) && !isForeign(err): // precondition failed: another pod has that name by now
		return nil
	}
	if err = k.fail(ctx, what, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Cordon sends one patch that applies only if the Node is unchanged.
func (k *client) Cordon(ctx context.Context, node, why string) error {
	return k.schedulable(ctx, "cordoning the Node "+node, node, func(n *corev1.Node) any {
		if n.Spec.Unschedulable {
			return nil
		}
		return nodePatch(n, map[string]any{kube.CordonedBy: why}, map[string]any{"unschedulable": true})
	})
}

// Uncordon undoes a Cordon of nodejoin.
func (k *client) Uncordon(ctx context.Context, node string) error {
	return k.schedulable(ctx, "uncordoning the Node "+node, node, func(n *corev1.Node) any {
		if _, noted := n.Annotations[kube.CordonedBy]; !noted {
			return nil
		}
		spec := map[string]any{}
		if !k.cordonedByOthers(n) {
			spec["unschedulable"] = nil
		}
		return nodePatch(n, map[string]any{kube.CordonedBy: nil}, spec)
	})
}

func nodePatch(n *corev1.Node, annotations, spec map[string]any) any {
	return map[string]any{"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion,
		"annotations": annotations}, "spec": spec}
}

// schedulable reads a Node and sends the merge patch that want returns, none for nil. If another writer, such
// as a heartbeat, comes in between, it reads again.
func (k *client) schedulable(ctx context.Context, what, node string, want func(*corev1.Node) any) error {
	done := k.nodes.write(node)
	var n *corev1.Node
	err := retryConflict(func() (err error) {
		if n, err = k.core.Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
			return err
		}
		patch := want(n)
		if patch == nil {
			return nil
		}
		b, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		n, err = k.core.Nodes().Patch(ctx, node, types.MergePatchType, b, metav1.PatchOptions{FieldManager: k.manager})
		return err
	})
	done(n, err)
	return k.fail(ctx, what, err)
}

// DeleteNode deletes a Node by name and UID.
func (k *client) DeleteNode(ctx context.Context, name, uid string) error {
	what := "deleting the Node " + name
	if uid == "" {
		return fmt.Errorf("%s: %w: its UID is not known", what, kube.ErrChanged)
	}
	k.nodes.write(name)(nil, nil)
	id := types.UID(uid)
	err := k.core.Nodes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}})
	if apierrors.IsConflict(err) && !isForeign(err) {
		return fmt.Errorf("%s: %w: %w", what, kube.ErrChanged, err)
	}
	if err = k.fail(ctx, what, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

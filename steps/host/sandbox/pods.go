package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/kube"
)

// AddPod binds a pod to a node. A pod without a UID gets one.
func (k *Cluster) AddPod(ctx context.Context, node string, p kube.Pod, budget string) error {
	return k.change(ctx, func(s *clusterState) error {
		p.UID = or(p.UID, randomHex(16))
		s.Pods.set(p.UID, boundPod{p, node, budget})
		return nil
	})
}

// SetBudget sets how many evictions a budget allows from now on. Nothing recreates evicted pods, so each
// eviction uses one up for good.
func (k *Cluster) SetBudget(ctx context.Context, name string, allowed int) error {
	return k.change(ctx, func(s *clusterState) error {
		s.Budgets.set(name, allowed)
		return nil
	})
}

// Nodes lists the Nodes.
func (k *Cluster) Nodes(ctx context.Context) ([]kube.Node, error) {
	var out []kube.Node
	err := k.ask(ctx, "list", "nodes", func(s *clusterState) error {
		for _, n := range s.Nodes.all() {
			out = append(out, copied(n))
		}
		return nil
	})
	return out, err
}

// OutOfService lists the Nodes that are cordoned or not Ready.
func (k *Cluster) OutOfService(ctx context.Context) ([]kube.Node, error) {
	var out []kube.Node
	err := k.ask(ctx, "list", "nodes out of service", func(s *clusterState) error {
		for _, n := range s.Nodes.all() {
			if n.Out() {
				out = append(out, copied(n))
			}
		}
		return nil
	})
	return out, err
}

// Pods lists the pods of a node.
func (k *Cluster) Pods(ctx context.Context, node string) ([]kube.Pod, error) {
	var out []kube.Pod
	err := k.ask(ctx, "list pods of", node, func(s *clusterState) error {
		for _, p := range s.Pods.all() {
			if p.Node == node {
				out = append(out, copied(p.Pod))
			}
		}
		slices.SortFunc(out, func(a, b kube.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		return nil
	})
	return out, err
}

// DaemonSets lists none: no controller makes pods of them here.
func (k *Cluster) DaemonSets(ctx context.Context, node kube.Node) ([]kube.DaemonSet, error) {
	return nil, k.ask(ctx, "list DaemonSets of", node.Name, func(*clusterState) error { return nil })
}

// Evict removes a pod at once, if its budget allows.
func (k *Cluster) Evict(ctx context.Context, p kube.Pod) error {
	return k.tell(ctx, "evict", p.String(), func(s *clusterState) error {
		have, ok := s.Pods.get(p.UID)
		if !ok || have.Namespace != p.Namespace || have.Name != p.Name {
			return nil
		}
		if have.Budget != "" && !have.Finished {
			allowed, _ := s.Budgets.get(have.Budget)
			if allowed <= 0 {
				return fmt.Errorf("%w: %s", kube.ErrBudget, have.Budget)
			}
			s.Budgets.set(have.Budget, allowed-1)
		}
		s.Pods.remove(p.UID)
		return nil
	})
}

// Cordon makes a Node unschedulable.
func (k *Cluster) Cordon(ctx context.Context, node, why string) error {
	return k.onNode(ctx, "cordon node", node, func(n *kube.Node) {
		if !n.Unschedulable {
			n.Unschedulable, n.OwnCordon = true, why
			n.Annotations = with(n.Annotations, kube.CordonedBy, why)
		}
	})
}

// Uncordon undoes Cordon.
func (k *Cluster) Uncordon(ctx context.Context, node string) error {
	return k.onNode(ctx, "uncordon node", node, func(n *kube.Node) {
		if n.OwnCordon != "" {
			n.Unschedulable, n.OwnCordon = false, ""
		}
		delete(n.Annotations, kube.CordonedBy)
	})
}

// SetUnschedulable cordons or uncordons a Node, as a person does with kubectl.
func (k *Cluster) SetUnschedulable(ctx context.Context, node string, on bool) error {
	return k.onNode(ctx, "cordon node", node, func(n *kube.Node) {
		if n.Unschedulable != on {
			n.Unschedulable, n.OwnCordon = on, ""
		}
	})
}

// SetAnnotations changes annotations of a node.
func (k *Cluster) SetAnnotations(ctx context.Context, node string, set map[string]string, remove []string) error {
	return k.onNode(ctx, "annotate node", node, func(n *kube.Node) {
		for key, v := range set {
			n.Annotations = with(n.Annotations, key, v)
		}
		for _, key := range remove {
			delete(n.Annotations, key)
		}
	})
}

// SetCondition sets a condition of a node.
func (k *Cluster) SetCondition(ctx context.Context, node string, c kube.Condition) error {
	return k.onNode(ctx, "set condition", node, func(n *kube.Node) {
		i, ok := slices.BinarySearchFunc(n.Conditions, c.Type, func(have kube.Condition, of string) int {
			return strings.Compare(have.Type, of)
		})
		if !ok {
			n.Conditions = slices.Insert(n.Conditions, i, c)
		}
		n.Conditions[i] = c
	})
}

// DeleteNode removes the Node object with this UID, and its pods, as the pod
// garbage collector does.
func (k *Cluster) DeleteNode(ctx context.Context, name, uid string) error {
	err := k.tell(ctx, "delete node", name, func(s *clusterState) error {
		n, ok := s.Nodes.get(name)
		switch {
		case !ok:
			return fs.ErrNotExist
		case n.UID != uid || uid == "":
			return kube.ErrChanged
		}
		s.Nodes.remove(name)
		for uid, p := range s.Pods.all() {
			if p.Node == name {
				s.Pods.remove(uid)
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SetLabels changes labels of a node.
func (k *Cluster) SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error {
	return k.onNode(ctx, "label node", node, func(n *kube.Node) {
		for _, key := range remove {
			delete(n.Labels, key)
		}
		for key, v := range set {
			n.Labels = with(n.Labels, key, v)
		}
	})
}

// SetTaints changes taints of a node.
func (k *Cluster) SetTaints(ctx context.Context, node string, set, remove []kube.Taint) error {
	return k.onNode(ctx, "taint node", node, func(n *kube.Node) {
		for _, t := range slices.Concat(remove, set) {
			n.Taints = slices.DeleteFunc(n.Taints, func(have kube.Taint) bool {
				return have.Key == t.Key && have.Effect == t.Effect
			})
		}
		n.Taints = append(n.Taints, set...)
	})
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

func (k *Cluster) onNode(ctx context.Context, op, node string, f func(*kube.Node)) error {
	return k.tell(ctx, op, node, func(s *clusterState) error {
		n, ok := s.Nodes.edit(node)
		if !ok {
			return fs.ErrNotExist
		}
		f(&n)
		s.Nodes.set(node, n)
		return nil
	})
}

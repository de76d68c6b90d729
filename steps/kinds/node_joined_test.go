package kinds

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
)

// oneNode is a cluster with one Node. It fails from call number limit on.
type oneNode struct {
	kube.API
	node  kube.Node
	limit int
	calls []string
}

var errDied = errors.New("died")

func (o *oneNode) change(call string) error {
	if len(o.calls) >= o.limit {
		return errDied
	}
	o.calls = append(o.calls, call)
	return nil
}

func (o *oneNode) Node(context.Context, string) (kube.Node, error) {
	n := o.node
	n.Annotations, n.Labels, n.Taints = maps.Clone(n.Annotations), maps.Clone(n.Labels), slices.Clone(n.Taints)
	return n, nil
}

func (o *oneNode) SetAnnotations(_ context.Context, _ string, set map[string]string, remove []string) error {
	if err := o.change("annotate"); err != nil {
		return err
	}
	if o.node.Annotations == nil {
		o.node.Annotations = map[string]string{}
	}
	maps.Copy(o.node.Annotations, set)
	for _, k := range remove {
		delete(o.node.Annotations, k)
	}
	return nil
}

func (o *oneNode) SetLabels(_ context.Context, _ string, set map[string]string, remove []string) error {
	if err := o.change("label"); err != nil {
		return err
	}
	for _, k := range remove {
		delete(o.node.Labels, k)
	}
	if o.node.Labels == nil {
		o.node.Labels = map[string]string{}
	}
	maps.Copy(o.node.Labels, set)
	return nil
}

func (o *oneNode) SetTaints(_ context.Context, _ string, set, remove []kube.Taint) error {
	if err := o.change("taint"); err != nil {
		return err
	}
	for _, t := range slices.Concat(set, remove) {
		o.node.Taints = slices.DeleteFunc(o.node.Taints, func(have kube.Taint) bool {
			return steps.TaintID(have) == steps.TaintID(t)
		})
	}
	o.node.Taints = append(o.node.Taints, set...)
	return nil
}

func (o *oneNode) Uncordon(context.Context, string) error {
	if err := o.change("uncordon"); err != nil {
		return err
	}
	if o.node.OwnCordon != "" {
		o.node.Unschedulable, o.node.OwnCordon = false, ""
	}
	delete(o.node.Annotations, kube.CordonedBy)
	return nil
}

// run runs a step of the cluster once.
func (o *oneNode) run(step any, kind string, limit int) executor.RunResult {
	o.limit, o.calls = limit, nil
	e := &steps.Env{Node: "win-1", StepID: "x", Progress: func(event.StepProgress) {}}
	return executor.Run(context.Background(), "win-1", steps.Spec{ID: "x", Kind: kind, Args: steps.MustArgs(step)},
		nil, e, func(event.Event) {}, executor.Target{Kinds: Catalog(), Kube: o})
}

// A Node accepts pods only at the end, whichever run gets there. A run that dies on the way leaves it to the next one.
func TestNodeJoinedDiesAnywhere(t *testing.T) {
	foreign := kube.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}
	start := kube.Node{Name: "win-1", Unschedulable: true, OwnCordon: "upgrade",
		Taints:      []kube.Taint{foreign, kube.Joining},
		Annotations: map[string]string{kube.CordonedBy: "upgrade", kube.PlanOf: "old", "theirs": "x"}}
	for limit := 0; ; limit++ {
		o := &oneNode{node: start}
		o.node, _ = o.Node(t.Context(), "")
		r := o.run(&NodeJoined{Plan: "prod"}, "node_joined", limit)
		if r.Err == nil {
			if limit != 3 {
				t.Errorf("done with %d calls: %v", limit, o.calls)
			}
			break
		}
		if !o.node.Unschedulable {
			t.Errorf("after %v the Node takes pods, and the step failed", o.calls)
		}
		if r := o.run(&NodeJoined{Plan: "prod"}, "node_joined", 9); r.Err != nil || !r.Changed {
			t.Fatalf("the next run: changed %v, %v", r.Changed, r.Err)
		}
		want := kube.Node{Name: "win-1", Taints: []kube.Taint{foreign},
			Annotations: map[string]string{kube.PlanOf: "prod", "theirs": "x"}}
		if d := cmp.Diff(want, o.node); d != "" {
			t.Error(d)
		}
		if r := o.run(&NodeJoined{Plan: "prod"}, "node_joined", 0); r.Err != nil || r.Changed {
			t.Errorf("a further run: changed %v, %v", r.Changed, r.Err)
		}
	}
}

// nodejoin does not remove a person's cordon, even if its own note is still there.
func TestNodeJoinedKeepsForeignCordon(t *testing.T) {
	for _, annotations := range []map[string]string{nil, {kube.CordonedBy: "upgrade"}} {
		o := &oneNode{node: kube.Node{Unschedulable: true, Annotations: annotations}}
		r := o.run(&NodeJoined{Plan: "prod"}, "node_joined", 9)
		if _, noted := o.node.Annotations[kube.CordonedBy]; r.Err != nil || !o.node.Unschedulable || noted {
			t.Errorf("unschedulable %v, annotations %v, %v", o.node.Unschedulable, o.node.Annotations, r.Err)
		}
	}
}

// Labels and taints follow the plan: those that the plan no longer names are removed, others' stay, and a run that
// dies on the way is completed by the next one.
func TestLabelsAndTaintsFollowThePlan(t *testing.T) {
	taint := func(key, value string) kube.Taint { return kube.Taint{Key: key, Value: value, Effect: "NoSchedule"} }
	start := kube.Node{Name: "win-1", Labels: map[string]string{"theirs": "x"},
		Taints: []kube.Taint{taint("theirs", "x")}}
	steps := func(labels map[string]string, taints ...kube.Taint) map[string]any {
		if labels == nil {
			labels = map[string]string{}
		}
		return map[string]any{"node_labels": &NodeLabels{Labels: labels},
			"node_taints": &NodeTaints{Taints: append([]kube.Taint{}, taints...)}}
	}
	for _, c := range []struct {
		name        string
		first, then map[string]any
		between     func(o *oneNode)
		labels      map[string]string
		taints      []kube.Taint
	}{
		{"removed", steps(map[string]string{"a": "1", "b": "2"}, taint("a", "1"), taint("b", "2")),
			steps(map[string]string{"a": "1"}, taint("a", "1")), nil,
			map[string]string{"theirs": "x", "a": "1"}, []kube.Taint{taint("theirs", "x"), taint("a", "1")}},
		{"all removed", steps(map[string]string{"a": "1"}, taint("a", "1")), steps(nil), nil, start.Labels, start.Taints},
		{"changed and removed", steps(map[string]string{"a": "1", "b": "2"}, taint("a", "1"), taint("b", "2")),
			steps(map[string]string{"a": "3"}, taint("a", "3")), nil,
			map[string]string{"theirs": "x", "a": "3"}, []kube.Taint{taint("theirs", "x"), taint("a", "3")}},
		{"taken over by a person", steps(map[string]string{"a": "1"}, taint("a", "1")), steps(nil), func(o *oneNode) {
			o.node.Labels["a"] = "theirs"
			o.node.Taints[1].Value = "theirs"
		}, map[string]string{"theirs": "x", "a": "theirs"}, []kube.Taint{taint("theirs", "x"), taint("a", "theirs")}},
	} {
		for _, kind := range []string{"node_labels", "node_taints"} {
			for limit := 0; ; limit++ {
				o := &oneNode{node: start}
				o.node, _ = o.Node(t.Context(), "")
				if r := o.run(c.first[kind], kind, 9); r.Err != nil || !r.Changed {
					t.Fatalf("%s, %s: %v, %v", c.name, kind, r.Changed, r.Err)
				}
				if c.between != nil {
					if kind == "node_labels" {
						o.node.Taints = append(o.node.Taints, kube.Taint{})
					} else {
						o.node.Labels["a"] = "1"
					}
					c.between(o)
				}
				died := o.run(c.then[kind], kind, limit).Err != nil
				if r := o.run(c.then[kind], kind, 9); r.Err != nil {
					t.Fatalf("%s, %s: %v", c.name, kind, r.Err)
				}
				if r := o.run(c.then[kind], kind, 0); r.Err != nil || r.Changed {
					t.Errorf("%s, %s: a further run: %v, %v", c.name, kind, r.Changed, r.Err)
				}
				if d := cmp.Diff(c.labels, o.node.Labels); kind == "node_labels" && d != "" {
					t.Errorf("%s, killed after %d calls: %s", c.name, limit, d)
				}
				if d := cmp.Diff(c.taints, o.node.Taints); kind == "node_taints" && d != "" {
					t.Errorf("%s, killed after %d calls: %s", c.name, limit, d)
				}
				if !died {
					break
				}
			}
		}
	}
}

// A Node's labels and taints that a plan changed are restored, and anybody else's stay. An interrupted call is
// completed by the next one.
func TestNodeGivenRestore(t *testing.T) {
	taint := func(key, value string) kube.Taint { return kube.Taint{Key: key, Value: value, Effect: "NoSchedule"} }
	labels := func(m map[string]string) *NodeLabels { return &NodeLabels{Labels: m} }
	taints := func(list ...kube.Taint) *NodeTaints { return &NodeTaints{Taints: list} }
	prepared := func() (*oneNode, kube.Node, *steps.NodeGiven) {
		o := &oneNode{node: kube.Node{Name: "win-1", Labels: map[string]string{"theirs": "x", "took": "theirs"},
			Taints: []kube.Taint{taint("theirs", "x")}}}
		apply := func(l *NodeLabels, ts *NodeTaints) {
			for kind, step := range map[string]any{"node_labels": l, "node_taints": ts} {
				if r := o.run(step, kind, 9); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		apply(labels(map[string]string{"stays": "1", "changes": "1", "goes": "1"}),
			taints(taint("changes", "1"), taint("goes", "1")))
		before, _ := o.Node(t.Context(), "")
		given := steps.GivenTo(before)
		apply(labels(map[string]string{"stays": "1", "changes": "2", "comes": "2", "took": "ours", "person": "2"}),
			taints(taint("changes", "2"), taint("comes", "2"), taint("person", "2")))
		o.limit, o.calls = 9, nil
		o.node.Labels["person"], o.node.Labels["new"] = "theirs", "x"
		before.Labels["person"], before.Labels["new"] = "theirs", "x"
		for i := range o.node.Taints {
			if o.node.Taints[i].Key == "person" {
				o.node.Taints[i].Value = "theirs"
			}
		}
		before.Taints = append(before.Taints, taint("person", "theirs"))
		return o, before, given
	}
	for limit := 0; ; limit++ {
		o, before, given := prepared()
		put := func() error {
			n, _ := o.Node(t.Context(), "")
			do := given.Restore(n)
			if do == nil {
				return nil
			}
			return do(t.Context(), o)
		}
		o.limit = limit
		died := put() != nil
		o.limit = 99
		if err := put(); err != nil {
			t.Fatal(err)
		}
		byKey := func(a, b kube.Taint) int { return strings.Compare(a.Key, b.Key) }
		slices.SortFunc(before.Taints, byKey)
		slices.SortFunc(o.node.Taints, byKey)
		if d := cmp.Diff(before, o.node); d != "" {
			t.Errorf("killed after %d calls (-before +after):\n%s", limit, d)
		}
		if n, _ := o.Node(t.Context(), ""); given.Restore(n) != nil {
			t.Error("there is still something to restore")
		}
		if !died {
			if limit != 3 {
				t.Errorf("done with %d calls", limit)
			}
			return
		}
	}
}

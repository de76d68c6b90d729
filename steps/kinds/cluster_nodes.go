package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var nodeLabelsKind = steps.Kind{Name: "node_labels", Place: steps.OnCluster, Restored: true,
	Doc: "labels of the Node; those that the plan gave it before go, others stay",
	New: func() any { return &NodeLabels{} },
	Render: steps.Renders(func(n *NodeLabels, _ steps.RenderFor) (steps.Rendering, error) {
		return steps.Rendering{Node: &steps.NodeParts{Labels: n.Labels}}, nil
	})}

var nodeTaintsKind = steps.Kind{Name: "node_taints", Place: steps.OnCluster, Restored: true,
	Doc: "taints of the Node; those that the plan gave it before go, others stay",
	New: func() any { return &NodeTaints{} },
	Render: steps.Renders(func(n *NodeTaints, _ steps.RenderFor) (steps.Rendering, error) {
		parts := &steps.NodeParts{}
		for _, t := range n.Taints {
			parts.Taints = append(parts.Taints, t)
		}
		return steps.Rendering{Node: parts}, nil
	})}

const notRegistered = "the Node is not registered yet"

// NodeLabels keeps labels of the Node. Those that it set are noted in an annotation of
// the Node (kube.LabelsOf), so that one that the plan no longer names is removed, if it
// still has the value that the plan gave it.
type NodeLabels struct {
	Labels map[string]string `json:"labels" doc:"labels that the Node must carry"`
	// Others are those that the plan's other steps give the Node.
	Others map[string]string `json:"others,omitempty" lang:"-"`
}

func (l *NodeLabels) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	n, err := r.Node(ctx, e.Node)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return steps.Change{}, err
	}
	diffs := labelDiffs(n.Labels, l.Labels)
	for _, k := range l.former(n) {
		diffs = append(diffs, steps.Diff{Name: "label " + k, Have: quoted(n.Labels[k])})
	}
	return nodeChange(noteDiff(diffs, n, kube.LabelsOf, l.note(n, nil)), err != nil), nil
}

// former are labels of the Node that an earlier plan set, and this one does not name.
func (l *NodeLabels) former(n kube.Node) []string {
	noted := steps.NotedLabels(n.Annotations)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(noted)) {
		_, wanted := l.Labels[k]
		_, others := l.Others[k]
		if v, ok := n.Labels[k]; ok && !wanted && !others && v == noted[k] {
			out = append(out, k)
		}
	}
	return out
}

// note is what the Node's annotation says after the step: its labels, those of other steps that are noted
// already, and those that it is about to remove.
func (l *NodeLabels) note(n kube.Node, former []string) string {
	out := maps.Clone(l.Labels)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range steps.NotedLabels(n.Annotations) {
		_, wanted := l.Labels[k]
		if _, others := l.Others[k]; others && !wanted {
			out[k] = v
		}
	}
	for _, k := range former {
		out[k] = n.Labels[k]
	}
	return noteText(out, len(out))
}

func (l *NodeLabels) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	n, err := a.Node(ctx, e.Node)
	if err != nil {
		return steps.Outcome{}, nodeAbsent(e.Node, err)
	}
	former := l.former(n)
	return steps.Outcome{}, keepNoted(ctx, a, n, kube.LabelsOf, l.note(n, former), l.note(n, nil),
		func() error { return a.SetLabels(ctx, e.Node, l.Labels, former) })
}

// NodeTaints keeps taints of the Node, and removes those that an earlier plan set, as
// NodeLabels does; the annotation is kube.TaintsOf.
type NodeTaints struct {
	Taints []kube.Taint `json:"taints" doc:"taints that the Node must carry"`
	// Others are those that the plan's other steps give the Node.
	Others []kube.Taint `json:"others,omitempty" lang:"-"`
}

func (t *NodeTaints) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	seen := map[string]bool{}
	for _, w := range t.Taints {
		if w.Effect != "NoSchedule" && w.Effect != "PreferNoSchedule" && w.Effect != "NoExecute" {
			return steps.Change{}, &steps.Error{Code: steps.CodeInvalid, Summary: "wrong taint effect",
				Detail: fmt.Sprintf("the effect of taint %q is %q; it must be NoSchedule, PreferNoSchedule or NoExecute", w.Key,
					w.Effect)}
		}
		if seen[steps.TaintID(w)] {
			return steps.Change{}, &steps.Error{Code: steps.CodeInvalid, Summary: "taint given twice", Detail: steps.TaintID(w)}
		}
		seen[steps.TaintID(w)] = true
	}
	n, err := r.Node(ctx, e.Node)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return steps.Change{}, err
	}
	diffs := taintDiffs(n.Taints, t.Taints)
	for _, f := range t.former(n) {
		diffs = append(diffs, steps.Diff{Name: "taint " + steps.TaintID(f), Have: taintText(f)})
	}
	return nodeChange(noteDiff(diffs, n, kube.TaintsOf, t.note(n, nil)), err != nil), nil
}

// former are taints of the Node that an earlier plan set, and this one does not name.
func (t *NodeTaints) former(n kube.Node) []kube.Taint {
	return slices.DeleteFunc(steps.NotedTaints(n.Annotations), func(f kube.Taint) bool {
		return hasTaint(t.Taints, f) || hasTaint(t.Others, f) || !slices.Contains(n.Taints, f)
	})
}

func hasTaint(list []kube.Taint, t kube.Taint) bool {
	return slices.ContainsFunc(list, func(w kube.Taint) bool { return steps.TaintID(w) == steps.TaintID(t) })
}

// note is NodeLabels' for taints; they stand in the order of their names.
func (t *NodeTaints) note(n kube.Node, former []kube.Taint) string {
	out := slices.Concat(t.Taints, former)
	for _, noted := range steps.NotedTaints(n.Annotations) {
		if hasTaint(t.Others, noted) && !hasTaint(out, noted) {
			out = append(out, noted)
		}
	}
	if len(t.Others) > 0 {
		slices.SortFunc(out, func(a, b kube.Taint) int { return strings.Compare(steps.TaintID(a), steps.TaintID(b)) })
	}
	return noteText(out, len(out))
}

func (t *NodeTaints) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	n, err := a.Node(ctx, e.Node)
	if err != nil {
		return steps.Outcome{}, nodeAbsent(e.Node, err)
	}
	former := t.former(n)
	return steps.Outcome{}, keepNoted(ctx, a, n, kube.TaintsOf, t.note(n, former), t.note(n, nil),
		func() error { return a.SetTaints(ctx, e.Node, t.Taints, former) })
}

// noteText is the note of what a plan gives a Node, "" for nothing.
func noteText(v any, n int) string {
	if n == 0 {
		return ""
	}
	b, err := json.Marshal(v) // maps come sorted
	if err != nil {
		panic(fmt.Sprintf("steps: note %T: %v", v, err)) // of strings
	}
	return string(b)
}

// noteDiff adds the note where nothing else differs.
func noteDiff(diffs []steps.Diff, n kube.Node, annotation, want string) []steps.Diff {
	if have := n.Annotations[annotation]; have != want && len(diffs) == 0 {
		diffs = append(diffs, steps.Diff{Name: "annotation " + annotation, Have: have, Want: want})
	}
	return diffs
}

// keepNoted changes a Node with a note of what is the plan's: before the change of all
// that is touched, after it of what is wanted. A run that ends in between leaves nothing
// that the next one would not know for the plan's.
func keepNoted(ctx context.Context, a kube.API, n kube.Node, annotation, during, after string,
	change func() error) error {
	note := func(text string) error {
		if text == "" {
			return a.SetAnnotations(ctx, n.Name, nil, []string{annotation})
		}
		return a.SetAnnotations(ctx, n.Name, map[string]string{annotation: text}, nil)
	}
	if n.Annotations[annotation] != during {
		if err := note(during); err != nil {
			return nodeAbsent(n.Name, err)
		}
	}
	if err := change(); err != nil {
		return nodeAbsent(n.Name, err)
	}
	if during == after {
		return nil
	}
	return nodeAbsent(n.Name, note(after))
}

func nodeChange(diffs []steps.Diff, absent bool) steps.Change {
	switch {
	case len(diffs) == 0:
		return steps.Change{}
	case absent:
		return steps.Change{Action: steps.ActionCreate, Reason: notRegistered, Diffs: diffs}
	}
	return steps.Change{Action: steps.ActionUpdate, Diffs: diffs}
}

func nodeAbsent(node string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &steps.Error{Code: steps.CodeFailed, Summary: "no such Node",
			Detail: fmt.Sprintf("the Node %s is not registered", node),
			Remedy: "let a node_registered step come before"}
	}
	return err
}

// labelDiffs are the wanted labels that have lacks or holds otherwise, by key.
func labelDiffs(have, want map[string]string) []steps.Diff {
	var out []steps.Diff
	for _, k := range slices.Sorted(maps.Keys(want)) {
		h, ok := have[k]
		if ok && h == want[k] {
			continue
		}
		d := steps.Diff{Name: "label " + k, Want: quoted(want[k])}
		if ok {
			d.Have = quoted(h)
		}
		out = append(out, d)
	}
	return out
}

// quoted sets an empty value off from none; references in it must stay as they are.
func quoted(s string) string { return `"` + s + `"` }

// taintDiffs are the wanted taints that have lacks or holds with another value, by
// key and effect.
func taintDiffs(have, want []kube.Taint) []steps.Diff {
	var out []steps.Diff
	for _, w := range want {
		d := steps.Diff{Name: "taint " + steps.TaintID(w), Want: taintText(w)}
		i := slices.IndexFunc(have, func(h kube.Taint) bool { return steps.TaintID(h) == steps.TaintID(w) })
		if i >= 0 {
			if have[i].Value == w.Value {
				continue
			}
			d.Have = taintText(have[i])
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b steps.Diff) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// taintText writes a taint as kubectl does.
func taintText(t kube.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

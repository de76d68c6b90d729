package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"nodejoin/steps/kube"
)

var nodeLabelsKind = Kind{Name: "node_labels", Place: OnCluster, Doc: "labels of the Node; others stay",
	New: func() any { return &NodeLabels{} }}

var nodeTaintsKind = Kind{Name: "node_taints", Place: OnCluster, Doc: "taints of the Node; others stay",
	New: func() any { return &NodeTaints{} }}

const notRegistered = "the Node is not registered yet"

// NodeLabels keeps labels of the Node.
type NodeLabels struct {
	Labels map[string]string `json:"labels" doc:"labels that the Node must carry"`
}

func (l *NodeLabels) Check(ctx context.Context, r kube.Reader, e *Env) (Change, error) {
	n, err := r.Node(ctx, e.Node)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Change{}, err
	}
	return nodeChange(labelDiffs(n.Labels, l.Labels), err != nil), nil
}

func (l *NodeLabels) Apply(ctx context.Context, a kube.API, e *Env, c Change) (Outcome, error) {
	return Outcome{}, nodeAbsent(e.Node, a.SetLabels(ctx, e.Node, l.Labels, nil))
}

// NodeTaints keeps taints of the Node.
type NodeTaints struct {
	Taints []kube.Taint `json:"taints" doc:"taints that the Node must carry"`
}

func (t *NodeTaints) Check(ctx context.Context, r kube.Reader, e *Env) (Change, error) {
	seen := map[string]bool{}
	for _, w := range t.Taints {
		if w.Effect != "NoSchedule" && w.Effect != "PreferNoSchedule" && w.Effect != "NoExecute" {
			return Change{}, &Error{Code: CodeInvalid, Summary: "wrong taint effect",
				Detail: fmt.Sprintf("the effect of taint %q is %q; it must be NoSchedule, PreferNoSchedule or NoExecute", w.Key, w.Effect)}
		}
		if seen[taintID(w)] {
			return Change{}, &Error{Code: CodeInvalid, Summary: "taint given twice", Detail: taintID(w)}
		}
		seen[taintID(w)] = true
	}
	n, err := r.Node(ctx, e.Node)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Change{}, err
	}
	return nodeChange(taintDiffs(n.Taints, t.Taints), err != nil), nil
}

func (t *NodeTaints) Apply(ctx context.Context, a kube.API, e *Env, c Change) (Outcome, error) {
	return Outcome{}, nodeAbsent(e.Node, a.SetTaints(ctx, e.Node, t.Taints, nil))
}

func nodeChange(diffs []Diff, absent bool) Change {
	switch {
	case len(diffs) == 0:
		return Change{}
	case absent:
		return Change{Action: ActionCreate, Reason: notRegistered, Diffs: diffs}
	}
	return Change{Action: ActionUpdate, Diffs: diffs}
}

func nodeAbsent(node string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Code: CodeFailed, Summary: "no such Node", Detail: fmt.Sprintf("the Node %s is not registered", node),
			Remedy: "let a node_registered step come before"}
	}
	return err
}

// labelDiffs are the wanted labels that have lacks or holds otherwise, by key.
func labelDiffs(have, want map[string]string) []Diff {
	var out []Diff
	for _, k := range slices.Sorted(maps.Keys(want)) {
		h, ok := have[k]
		if ok && h == want[k] {
			continue
		}
		d := Diff{Name: "label " + k, Want: quoted(want[k])}
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
func taintDiffs(have, want []kube.Taint) []Diff {
	var out []Diff
	for _, w := range want {
		d := Diff{Name: "taint " + taintID(w), Want: taintText(w)}
		i := slices.IndexFunc(have, func(h kube.Taint) bool { return taintID(h) == taintID(w) })
		if i >= 0 {
			if have[i].Value == w.Value {
				continue
			}
			d.Have = taintText(have[i])
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Diff) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// taintID is what makes two taints the same one: a Node holds one of each key and effect.
func taintID(t kube.Taint) string { return t.Key + ":" + t.Effect }

// taintText writes a taint as kubectl does.
func taintText(t kube.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

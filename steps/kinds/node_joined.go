package kinds

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var nodeJoinedKind = steps.Kind{Name: "node_joined", Place: steps.OnCluster, Ends: true,
	Doc: "the end of a join: the Node carries the mark of its plan and takes pods; others' cordons stay",
	New: func() any { return &NodeJoined{} },
	Render: steps.Renders(func(n *NodeJoined, _ steps.RenderFor) (steps.Rendering, error) {
		return steps.Rendering{Node: &steps.NodeParts{Annotations: map[string]string{kube.PlanOf: n.Plan}}}, nil
	})}

// NodeJoined is the one place that lets a Node take pods: it removes what kept them
// away while the node was not verified, the joining taint and a cordon of nodejoin's
// own, by this run or an earlier one that ended before it came here. It is the last
// step of a node, so that a run that fails leaves the Node without new pods.
type NodeJoined struct {
	Plan string `json:"plan" doc:"name of the plan, which the Node is marked with"`
}

func (n *NodeJoined) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if n.Plan == "" {
		return steps.Change{}, steps.Invalid("node_joined needs the name of the plan")
	}
	node, err := r.Node(ctx, e.Node)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return steps.Change{}, err
	}
	return nodeChange(n.diffs(node), err != nil), nil
}

func (n *NodeJoined) diffs(have kube.Node) []steps.Diff {
	var out []steps.Diff
	if plan := have.Annotations[kube.PlanOf]; plan != n.Plan {
		out = append(out, steps.Diff{Name: "annotation " + kube.PlanOf, Have: plan, Want: n.Plan})
	}
	if i := slices.IndexFunc(have.Taints,
		func(t kube.Taint) bool { return steps.TaintID(t) == steps.TaintID(kube.Joining) }); i >= 0 {
		out = append(out, steps.Diff{Name: "taint " + steps.TaintID(kube.Joining), Have: taintText(have.Taints[i])})
	}
	if why, noted := have.Annotations[kube.CordonedBy]; have.OwnCordon != "" {
		out = append(out, steps.Diff{Name: "cordon", Have: "by nodejoin, for " + have.OwnCordon})
	} else if noted { // somebody has uncordoned the Node, and perhaps cordoned it again
		out = append(out, steps.Diff{Name: "annotation " + kube.CordonedBy, Have: why})
	}
	return out
}

// Apply ends the cordon last: a run that is killed on the way there is finished by the
// next one, as the Node still says that it is cordoned by nodejoin.
func (n *NodeJoined) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	node, err := a.Node(ctx, e.Node)
	if err == nil && node.Annotations[kube.PlanOf] != n.Plan {
		err = a.SetAnnotations(ctx, e.Node, map[string]string{kube.PlanOf: n.Plan}, nil)
	}
	if err != nil {
		return steps.Outcome{}, nodeAbsent(e.Node, err)
	}
	if slices.ContainsFunc(node.Taints,
		func(t kube.Taint) bool { return steps.TaintID(t) == steps.TaintID(kube.Joining) }) {
		if err := a.SetTaints(ctx, e.Node, nil, []kube.Taint{kube.Joining}); err != nil {
			return steps.Outcome{}, nodeAbsent(e.Node, err)
		}
	}
	return steps.Outcome{}, nodeAbsent(e.Node, a.Uncordon(ctx, e.Node))
}

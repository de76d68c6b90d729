package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var nodeSeenKind = steps.Kind{Name: "node_seen", Place: steps.OnCluster,
	Doc:     "what the cluster knows of the node before anything is changed; changes nothing",
	Outputs: []string{"missing"},
	New:     func() any { return &NodeSeen{} }}

// NodeSeen looks whether there is a Node object. Outputs: missing, in words, "" where
// there is one. A kubelet registers its Node once, at its start (kubernetes
// pkg/kubelet/kubelet_node_status.go, registrationCompleted): when the object was
// deleted while it ran, it has to be restarted.
type NodeSeen struct{}

func (n *NodeSeen) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	missing := ""
	if _, err := r.Node(ctx, e.Node); errors.Is(err, fs.ErrNotExist) {
		missing = fmt.Sprintf("the cluster has no Node %s, and a kubelet registers only when it starts", e.Node)
	} else if err != nil {
		return steps.Change{}, err
	}
	return steps.Change{Outputs: map[string]string{"missing": missing}}, nil
}

// Apply has nothing to do: Check gives no change.
func (n *NodeSeen) Apply(context.Context, kube.API, *steps.Env, steps.Change) (steps.Outcome, error) {
	return steps.Outcome{}, nil
}

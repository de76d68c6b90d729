package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var nodeNameFreeKind = steps.Kind{Name: "node_name_free", Place: steps.OnCluster,
	Doc: "a condition: no other machine is the Ready Node of this name",
	New: func() any { return &NodeNameFree{} }}

// NodeNameFree refuses a machine whose name a Node has that is Ready and has another
// address: its kubelet would take the Node over, and two machines would report one.
// kubeadm refuses every Ready Node of the name (kubernetes
// cmd/kubeadm/app/cmd/phases/join/kubelet.go); here one of the same address passes,
// since it is this machine in an earlier life. It changes nothing.
type NodeNameFree struct {
	Address string `json:"address" doc:"address of the machine, as the Node would report it" id:"true"`
}

func (n *NodeNameFree) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if n.Address == "" {
		return steps.Change{}, steps.Invalid("node_name_free needs the machine's address")
	}
	node, err := r.Node(ctx, e.Node)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{}, nil
	case err != nil:
		return steps.Change{}, err
	case !node.Ready || node.InternalIP == "" || steps.HasRef(n.Address) || node.InternalIP == n.Address:
		return steps.Change{}, nil
	}
	return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "another machine has the node's name",
		Detail: fmt.Sprintf("the Node %s is Ready at %s, this machine is %s and holds no credentials of that Node; its "+
			"kubelet would take the Node over", e.Node, node.InternalIP, n.Address),
		Remedy: fmt.Sprintf("give this machine another name in the plan; or, where it replaces that one, stop the "+
			"kubelet there, `kubectl delete node %s`, and apply again", e.Node)}
}

// Apply has nothing to do: Check gives no change or an error.
func (n *NodeNameFree) Apply(context.Context, kube.API, *steps.Env, steps.Change) (steps.Outcome, error) {
	return steps.Outcome{}, nil
}

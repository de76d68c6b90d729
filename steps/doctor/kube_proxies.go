package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// KubeProxies reports a DaemonSet kube-proxy that selects a node of this OS, as that of kubeadm selects each Linux
// node, where the plan gives the node a kube-proxy, too.
func KubeProxies(req DiagnoseRequest, os string) (out []Symptom) {
	if os != "linux" || !slices.ContainsFunc(req.Steps, func(s steps.Spec) bool {
		service, ok := kinds.Runs(s)
		return ok && service.Name == "kube-proxy"
	}) {
		return nil
	}
	f := steps.Finding{ID: KubeProxyTwiceSymptom}
	for _, row := range controllerSymptoms {
		if row.ID == f.ID {
			f.Severity, f.Why = row.Severity, row.Doc
		}
	}
	for _, s := range req.Steps {
		f.Waived = f.Waived || slices.Contains(Waived(s), f.ID)
	}
	if why := cmp.Or(req.Cluster.NodeWhy, req.Cluster.PodsWhy, req.Cluster.DaemonSetsWhy); why != "" {
		return []Symptom{{Finding: f.NotChecked(errors.New(why), checkAgain)}}
	}
	for _, d := range req.Cluster.DaemonSets {
		if d.String() == "kube-system/kube-proxy" {
			f.Observed = fmt.Sprintf("DaemonSet %s selects this node, and the plan has a kube-proxy, too", d)
			f.Remedy = "write kube_proxy { enabled = false } for this node into the plan; the next apply removes the " +
				"rules of services from it, and until the DaemonSet has written them again, up to a minute, the node " +
				"reaches no service"
			out = append(out, Symptom{Finding: f})
		}
	}
	return out
}

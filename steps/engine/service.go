package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// out reports whether the Node of a host takes no pods, or does not run those that it has.
func (h *hostRun) out() bool {
	n := h.report.KubeNode
	if n == nil && len(h.report.Moved) > 0 {
		n = &h.report.Moved[0]
	}
	return n != nil && n.Out()
}

// nodeNow is the name that the Node of a host has now: a former one, if the machine has not joined as this one yet.
func (h *hostRun) nodeNow() string {
	if h.report.KubeNode == nil && len(h.report.Moved) > 0 {
		return h.report.Moved[0].Name
	}
	return h.node.Name
}

// is reports whether a Node is that of the host, also under a former name.
func (h *hostRun) is(node string) bool {
	return h.node.Name == node || slices.ContainsFunc(h.report.Moved, func(n kube.Node) bool { return n.Name == node })
}

// outNow asks the cluster how the host's run has left its Node; not to know counts as out.
func (h *hostRun) outNow(ctx context.Context) bool {
	if h.api == nil {
		return true
	}
	n, err := h.api.Node(context.WithoutCancel(ctx), h.node.Name)
	return err != nil || n.Out()
}

// fewNames names some Nodes, with the verb.
func fewNames(names []string) string {
	slices.Sort(names)
	const most = 5
	n := len(names)
	if n > most {
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	return strings.Join(names, ", ") + map[bool]string{true: " is", false: " are"}[n == 1]
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

// failed reports whether the run of the host counts as a failure of the rollout.
func (s HostSummary) failed() bool {
	if s.Err == nil {
		return false
	}
	code := steps.AsError(s.Err).Code
	return code != steps.CodeInterrupted && code != steps.CodeReboot
}

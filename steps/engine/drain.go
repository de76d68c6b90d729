package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// upgradeCordon is why a Node is cordoned whose kubelet or runtime stops, in kube.CordonedBy.
const upgradeCordon = "upgrade"

// stopsFirst reports whether a step is the first that interrupts the pods of the Node.
func (h *hostRun) stopsFirst(id string) bool {
	return h.report.Interruption != nil && h.report.Interruption.first == id
}

// drainNode cordons the Node and, where it is Ready, drains it. Until uncordonNode the
// Node takes no pods; a run that ends in between leaves it so, and the next one that
// comes to its end lets it take pods again.
func (h *hostRun) drainNode(ctx context.Context) error {
	if !h.report.KubeNode.Unschedulable {
		h.cordoned = true
		if err := h.phase(ctx, "cordon", func() error {
			return absentIsFine(h.api.Cordon(ctx, h.node.Name, upgradeCordon))
		}); err != nil {
			return err
		}
	}
	if !h.report.KubeNode.Ready {
		return nil // no kubelet would end its pods
	}
	return h.phase(ctx, "drain", func() error { return h.drain(ctx, h.opt.Drain) })
}

// uncordonNode undoes the cordon of drainNode, of this run or of one that was
// interrupted, where no step of the node does. Anyone else's cordon stays.
func (h *hostRun) uncordonNode(ctx context.Context) error {
	n := h.report.KubeNode
	earlier := n != nil && n.OwnCordon == upgradeCordon
	joins := slices.ContainsFunc(h.node.Steps, func(s steps.Spec) bool { return kinds.Of(s).Ends })
	if !h.cordoned && !earlier || joins {
		return nil
	}
	return h.phase(ctx, "uncordon", func() error { return absentIsFine(h.api.Uncordon(ctx, h.node.Name)) })
}

// drain evicts the pods of the Node, and reports which are still there.
func (h *hostRun) drain(ctx context.Context, o kube.DrainOptions) error {
	o.Progress = func(s kube.DrainState) {
		note := fmt.Sprintf("%d pods are leaving", len(s.Leaving))
		if len(s.Refused) > 0 {
			note += fmt.Sprintf(", a disruption budget holds %s", s.Refused[0])
		}
		h.emit(event.StepProgress{Host: h.node.Name, Step: "drain", Note: note})
	}
	return drainError(kube.Drain(ctx, h.api, h.node.Name, o))
}

// drainError adds a remedy to the error of a drain.
func drainError(err error) error {
	var blocked *kube.BlockedError
	var late *kube.DrainTimeoutError
	switch {
	case errors.As(err, &blocked):
		return &steps.Error{Code: steps.CodeFailed, Summary: "pods block the drain", Detail: blocked.Error(),
			Remedy: "move them away, or accept the loss: --delete-emptydir-data for the data of emptyDir volumes, " +
				"--force for pods that no controller creates again"}
	case errors.As(err, &late):
		return &steps.Error{Code: steps.CodeTimeout, Summary: "the drain was not done in time", Detail: late.Error(),
			Remedy: "see why they stay (kubectl get pdb, kubectl describe pod), then run the same again: it " +
				"continues from here; --drain-timeout gives it more time"}
	}
	return err
}

func absentIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

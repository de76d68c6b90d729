package engine

import (
	"context"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
)

// upgradeCordon is why a Node is cordoned whose kubelet or runtime stops, in kube.CordonedBy.
const upgradeCordon = "upgrade"

// stopsFirst tells whether a step is the first that interrupts the pods of the Node.
func (h *hostRun) stopsFirst(id string) bool {
	return h.report.Interruption != nil && h.report.Interruption.first == id
}

// stepAside cordons the Node and, where it is Ready, drains it. Until stepBack the
// Node takes no pods; a run that ends in between leaves it so, and the next one that
// comes to its end lets it take pods again.
func (h *hostRun) stepAside(ctx context.Context) error {
	if !h.report.KubeNode.Unschedulable {
		h.cordoned = true
		if err := h.phase(ctx, "cordon", func() error { return absentIsFine(h.api.Cordon(ctx, h.node.Name, upgradeCordon)) }); err != nil {
			return err
		}
	}
	if !h.report.KubeNode.Ready {
		return nil // nobody would end its pods
	}
	return h.phase(ctx, "drain", func() error { return h.drain(ctx, h.opt.Drain) })
}

// stepBack takes back the cordon of stepAside, of this run or of one that was
// interrupted, where no step of the node does. A cordon of anybody else stays.
func (h *hostRun) stepBack(ctx context.Context) error {
	n := h.report.KubeNode
	earlier := n != nil && n.OwnCordon == upgradeCordon
	if !h.cordoned && !earlier || slices.ContainsFunc(h.node.Steps, func(s steps.Spec) bool { return s.Kind == "node_joined" }) {
		return nil
	}
	return h.phase(ctx, "uncordon", func() error { return absentIsFine(h.api.Uncordon(ctx, h.node.Name)) })
}

// phase runs what is no step of the plan, told as one.
func (h *hostRun) phase(ctx context.Context, id string, f func() error) error {
	start := time.Now()
	h.emit(event.StepStarted{Host: h.node.Name, Step: id, Kind: "node", Action: string(steps.ActionUpdate)})
	err := f()
	if ctx.Err() != nil {
		err = steps.Interrupted("apply")
	}
	h.phaseDone(id, start, err)
	return err
}

// phaseDone tells how a phase ended.
func (h *hostRun) phaseDone(id string, start time.Time, err error) {
	d := event.StepDone{Host: h.node.Name, Step: id, Result: "changed", Action: string(steps.ActionUpdate), Duration: time.Since(start)}
	h.emit(steps.Done(d, err))
}

package engine

import (
	"context"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// hold locks the host for the apply, or leaves that to the call with the first steps.
func (a *hostApply) hold(ctx context.Context) error {
	if a.startsWithSteps() {
		a.holds, a.lockNext = true, true
		return nil
	}
	return a.hostRun.hold(ctx)
}

// startsWithSteps reports whether the first call that the apply makes to the host is one with steps.
func (a *hostApply) startsWithSteps() bool {
	if a.opt.Holder.Run == "" || a.conn == nil || len(a.node.Steps) == 0 || a.report.Snapshot != nil ||
		len(a.report.Moved) > 0 || a.removesEarly() {
		return false
	}
	first := a.node.Steps[0]
	k := kinds.Of(first)
	return k.Place == steps.OnHost && !k.Reboots && !k.Ends && !a.needsBlob(first) && !a.stopsFirst(first.ID) &&
		len(a.displaced(first)) == 0
}

// endsWithSteps reports whether the apply makes no call to the host, and none to the cluster, after its last steps.
func (a *hostApply) endsWithSteps() bool {
	return a.holds && !needsCluster(a.node) && a.rollbackTo == nil && a.report.Snapshot == nil && !a.cordoned &&
		a.report.KubeNode == nil && len(a.report.Moved)+len(a.names)+len(a.sum.Removed) == 0 && a.goesDown == nil &&
		a.rebootLeft == nil && (a.node.Partial || a.report.Removals.Of == 0)
}

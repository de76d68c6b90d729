package pull

import (
	"context"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/kube"
)

// ended is the result of an apply; nil = it has changed nothing.
type ended struct{ *engine.HostSummary }

// paused reports whether an operator's pause has ended the apply.
func (e ended) paused() bool {
	return e.HostSummary != nil && e.Err != nil && steps.AsError(e.Err).Code == steps.CodePaused
}

// rolledBack reports whether the machine is again what it was before the apply.
func (e ended) rolledBack() bool {
	return e.HostSummary != nil && e.Rollback != nil && e.Rollback.Err == nil
}

// begun reports whether the apply has changed anything. A Node that cannot be asked may be cordoned.
func (e ended) begun(ctx context.Context, api kube.API, node string) bool {
	if len(e.Changed)+len(e.Removed) > 0 {
		return true
	}
	n, err := api.Node(ctx, node)
	return err != nil || n.OwnCordon != ""
}

package engine

import (
	"time"

	"nodejoin/steps"
)

// hostApply is the apply of one host.
type hostApply struct {
	*hostRun
	sum   HostSummary
	start time.Time
	// undrained: the Node could not be cordoned or drained, and nothing was changed after that.
	undrained bool
}

// failed sets the step that ends the apply.
func (a *hostApply) failed(spec steps.Spec, err error) {
	a.sum.Failed, a.sum.Source, a.sum.Err = spec.ID, spec.Source, err
}

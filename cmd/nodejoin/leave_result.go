package main

import (
	"slices"

	"nodejoin/steps/engine"
)

// left is the result of a leave.
type left struct {
	report  *engine.LeaveReport
	summary *engine.LeaveSummary // nil: there was nothing to do
	options engine.LeaveOptions
	// interrupted: the check was, so nothing was changed.
	interrupted bool
}

// code is the exit code.
func (r left) code() int {
	if r.interrupted {
		return exitInterrupted
	}
	if r.report.Cluster != nil {
		return errorCode(r.report.Cluster)
	}
	code := exitOK
	for _, h := range r.report.Hosts {
		code = worst(code, errorCode(h.Err))
	}
	if r.summary != nil {
		for _, h := range r.summary.Hosts {
			code = worst(code, errorCode(h.Err))
		}
	}
	return code
}

// pending reports whether there is something to do on a host that can leave.
func (r left) pending() bool {
	if r.report.Cluster != nil {
		return false
	}
	return slices.ContainsFunc(r.report.Hosts, func(h engine.LeaveHost) bool { return h.Err == nil && h.Pending() })
}

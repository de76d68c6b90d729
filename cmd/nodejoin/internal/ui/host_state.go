package ui

import (
	"errors"

	"nodejoin/steps/engine"
	"nodejoin/steps/transport"
)

// Unchecked reports whether a step of the host, or all of them, could not be checked.
func Unchecked(h engine.HostReport) bool {
	s := HostState(h)
	return s == "failed" || s == "not_reachable"
}

// HostState is the state of a host in one word, as its check found it.
func HostState(h engine.HostReport) string {
	switch {
	case unreachable(h.Err):
		return "not_reachable"
	case h.Err != nil:
		return "failed"
	}
	state := "in_sync"
	if h.Snapshot != nil || h.Removals.Pending()+len(h.Moved) > 0 {
		state = "drifted"
	}
	for _, s := range h.Steps {
		if s.Result.Err != nil {
			return "failed"
		}
		if !s.Result.Change.NoOp() {
			state = "drifted"
		}
	}
	switch {
	case h.Last.IsLeave():
		return "unfinished" // a leave that finished left no note
	case state == "in_sync":
	case h.Untouched && h.KubeNode == nil && len(h.Moved) == 0:
		return "not_joined" // it never joined, or it has left
	case unfinished(h):
		return "unfinished"
	}
	return state
}

// Continue is the command that continues an unfinished leave of a host; "" = there is none.
func Continue(h engine.HostReport) string {
	if h.Err != nil || !h.Last.IsLeave() {
		return ""
	}
	return "nodejoin leave --target " + CleanLine(h.Node.Name)
}

// unfinished reports whether the last run that changed the machine did not finish. A run
// that was killed left no note; a first join is known by that, an upgrade by its snapshot.
func unfinished(h engine.HostReport) bool {
	switch {
	case h.Snapshot != nil:
		return true
	case h.Last == nil:
		return !h.Untouched && !h.LastUnknown
	}
	return h.Last.Result != "done"
}

// unreachable reports whether the host itself did not answer; it may be in sync.
func unreachable(err error) bool {
	var ce *transport.ConnectError
	return errors.As(err, &ce) && ce.Reason == transport.ReasonUnreachable || errors.Is(err, transport.ErrDropped)
}

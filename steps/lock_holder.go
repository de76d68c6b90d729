package steps

import (
	"fmt"
	"time"
)

// LockHolder is a run that holds a machine or a cluster: who works there, from where.
// It never holds arguments of the command line, which may be secrets.
type LockHolder struct {
	Run     string    `json:"run"`  // unique; "" = nobody
	User    string    `json:"user"` // on the controller
	Host    string    `json:"host"` // the controller's name
	PID     int       `json:"pid"`  // on the controller
	Since   time.Time `json:"since"`
	Command string    `json:"command"` // "apply"
	// Pod is the place that the run has in a Job of Kubernetes: its uid, and the index of the pod; "" = it has none.
	Pod string `json:"pod,omitempty"`
}

// String is "apply by alice on ctl-1 (process 4711), since 2006-01-02T15:04:05Z".
func (h LockHolder) String() string {
	return fmt.Sprintf("%s by %s on %s (process %d), since %s", h.Command, h.User, h.Host, h.PID,
		h.Since.UTC().Format(time.RFC3339))
}

// LockRequest asks for a machine to be held until Unlock or the end of the connection.
type LockRequest struct {
	Holder LockHolder    `json:"holder"`
	Wait   time.Duration `json:"wait"` // for another run that holds it, nanoseconds
}

// LockReply answers a LockRequest. The machine is held when By is nil.
type LockReply struct {
	By *LockHolder `json:"by,omitempty"` // another run holds it
	// Left is an earlier run that ended without letting go: its process died, the
	// connection to it was lost, or the machine went down.
	Left *LockHolder `json:"left,omitempty"`
}

// Locked is the error for a machine or cluster that another run holds.
func Locked(what string, by LockHolder) *Error {
	return &Error{Code: CodeLocked, Summary: "another nodejoin is at work", Detail: what + " is held: " + by.String(),
		Remedy: "let that run end, then apply again; if it hangs, end it on the machine where it runs"}
}

package executor

import (
	"time"

	"nodejoin/steps"
)

// RunNote says in short what a run did to a machine, or to its Node.
type RunNote struct {
	Holder  steps.LockHolder `json:"holder"`
	Ended   time.Time        `json:"ended"`
	Took    time.Duration    `json:"took"`           // nanoseconds
	Version string           `json:"version"`        // of nodejoin
	Plan    string           `json:"plan,omitempty"` // digest of the plan's files, "sha256:..."
	Result  string           `json:"result"`         // done, failed, interrupted
	Changed []string         `json:"changed"`        // step ids
	Failed  string           `json:"failed,omitempty"`
	Error   string           `json:"error,omitempty"` // summary
	// RanVersions are the versions that the run observed running, by the step that unpacked them.
	RanVersions map[string]string `json:"ran_versions,omitempty"`
}

// NoteRequest asks for a note. Release: the run has ended, and the machine is unlocked after that.
type NoteRequest struct {
	RunNote
	Release bool `json:"release,omitempty"`
}

// LeaveCommand is the command of a leave in its note.
const LeaveCommand = "leave"

// IsLeave reports whether the note is of a leave. A finished leave removes all notes.
func (n *RunNote) IsLeave() bool { return n != nil && n.Holder.Command == LeaveCommand }

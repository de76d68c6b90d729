package steps

import (
	"slices"
	"time"
)

// Action is what a step would do.
type Action string

const (
	ActionNone    Action = ""        // the state is as wanted
	ActionCreate  Action = "create"  // it is not there
	ActionUpdate  Action = "update"  // it is there and differs
	ActionDelete  Action = "delete"  // it is there and must not be
	ActionRestart Action = "restart" // as wanted, but what it was started from has changed
	ActionStart   Action = "start"   // as wanted, but not running
	ActionReboot  Action = "reboot"  // the machine is to reboot
	ActionWait    Action = "wait"    // a gate: not yet reached
	ActionRemove  Action = "remove"  // the plan no longer has it: it goes, or is as it was before
	ActionForget  Action = "forget"  // the plan no longer has it and keeps it: nodejoin's record forgets it
	ActionUnknown Action = "unknown" // not known before an earlier step is applied
)

// Change is the difference between the state as it is and as it is wanted.
// The zero Change is "nothing to do".
type Change struct {
	Action Action `json:"action,omitempty"`
	Reason string `json:"reason,omitempty"` // one line: why, where the diffs do not say it
	Diffs  []Diff `json:"diffs,omitempty"`
	// Unknown names references that no value was known for when it was checked.
	Unknown []string `json:"unknown,omitempty"`
	// Touches are what Apply would alter, so that for example a service that was started
	// from a file is planned to restart.
	Touches []Touch `json:"touches,omitempty"`
	// Digests are what files that Apply would alter hold then, path to sha256 or
	// AbsentFile, where that is known.
	Digests map[string]string `json:"digests,omitempty"`
	// Blobs are the artifacts of the controller that Apply would read.
	Blobs []Source `json:"blobs,omitempty"`
	// Reboot is why, with ActionReboot.
	Reboot *RebootNeed `json:"reboot,omitempty"`
	// Findings are what a preflight found; they are reported and change nothing.
	Findings []Finding `json:"findings,omitempty"`
	// Since is when what differs was last written, by the machine's clock; nil = not
	// known, or not after the last run that changed the machine.
	Since *time.Time `json:"since,omitempty"`
	// Outputs are values for later steps, as far as they can be observed now.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// WrittenAt notes when a file that is there was last written, where its content or its
// being there is what differs. The access of a file has no time.
func (c Change) WrittenAt(t time.Time) Change {
	if len(c.Touches) > 0 && !t.IsZero() {
		t = t.UTC()
		c.Since = &t
	}
	return c
}

// NoOp reports whether there is nothing to do.
func (c Change) NoOp() bool { return c.Action == ActionNone }

// FoundText is what was found of the text that the step writes: the content of a file, or
// a command with an argument a line. differs is false where it is as wanted or not known.
func (c Change) FoundText() (text string, differs bool) {
	i := slices.IndexFunc(c.Diffs, func(d Diff) bool { return d.Text })
	if i < 0 {
		return "", false
	}
	return c.Diffs[i].Have, true
}

// Diff is one attribute that differs. Have and Want are written for people. With Text
// they are the text itself, which is shown as a unified diff; a Change has one such Diff
// at most. Sensitive values are never in it: the kind leaves both sides empty and sets
// Sensitive.
type Diff struct {
	Name      string `json:"name"`
	Have      string `json:"have,omitempty" lines:"true"`
	Want      string `json:"want,omitempty" lines:"true"`
	Text      bool   `json:"text,omitempty"`
	Sensitive bool   `json:"sensitive,omitempty"`
}

// HideDiff is c without the values of the named attribute, only that it differs.
func (c Change) HideDiff(name string) Change {
	c.Diffs = slices.Clone(c.Diffs)
	for i, d := range c.Diffs {
		if d.Name == name {
			c.Diffs[i] = Diff{Name: name, Sensitive: true}
		}
	}
	return c
}

// Outcome is the result of an apply besides the new state.
type Outcome struct {
	// Outputs that only the apply can know (a minted token); sensitive ones are
	// named in Sensitive and are never shown.
	Outputs   map[string]string `json:"outputs,omitempty"`
	Sensitive []string          `json:"sensitive,omitempty"`
}

// Result is a step's check.
type Result struct {
	ID     string `json:"id"`
	Change Change `json:"change"`
	Err    *Error `json:"err,omitempty"`
}

// RebootNeed is why a machine needs a reboot.
type RebootNeed struct {
	Why []string `json:"why"`
	// Blocks: later steps cannot work before it.
	Blocks bool `json:"blocks,omitempty"`
	// Asked: the machine was asked to reboot and has not gone down yet.
	Asked bool `json:"asked,omitempty"`
}

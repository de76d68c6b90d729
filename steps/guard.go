package steps

import (
	"fmt"
	"time"
)

// Guard is what the service of a node keeps an eye on between two applies, besides its steps.
type Guard struct {
	Interval time.Duration `json:"interval"` // between two checks, nanoseconds
	// Network is the HNS network of the pods, Restart the step of the service that is restarted, with those that
	// depend on it, when HNS has lost its state; "" = none.
	Network string `json:"network,omitempty"`
	Restart string `json:"restart,omitempty"`
	// CRI is where the container runtime lists its pods, whose endpoints go with their network; "" = they stay.
	CRI     string   `json:"cri,omitempty"`
	API     string   `json:"api,omitempty"`     // URL of the API server
	Folders []string `json:"folders,omitempty"` // on volumes that must not be full
	// Listen is the address of the metrics, Textfile a file with them; "" = none. With the files Certificate and Key
	// they are served over TLS.
	Listen      string `json:"listen,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	Textfile    string `json:"textfile,omitempty"`
	// Account is the step among BootPlan.Tokens whose token the service reports to the cluster with; "" = it does not.
	Account string `json:"account,omitempty"`
}

// GuardState is what the service of a node saw last and did, as its file on the machine holds it.
type GuardState struct {
	Version  int            `json:"version"` // GuardVersion
	At       time.Time      `json:"at"`      // of the last check
	Interval time.Duration  `json:"interval,omitempty"`
	Since    time.Time      `json:"since,omitzero"`     // since when there are problems, or none
	Problems []GuardProblem `json:"problems,omitempty"` // in the order of the steps
	Fixed    *GuardFix      `json:"fixed,omitempty"`    // the last fix; nil = there was none

	// Counts since the service first ran here.
	Checks   uint64 `json:"checks,omitempty"`
	Fixes    uint64 `json:"fixes,omitempty"`
	Failures uint64 `json:"failures,omitempty"` // fixes and renewals that failed
	Renewals uint64 `json:"renewals,omitempty"` // of tokens

	Tries map[string]GuardTry `json:"tries,omitempty"` // by step
	HNS   *HNSSeen            `json:"hns,omitempty"`   // while all was in order; nil = not known
}

// GuardVersion is the layout of a GuardState. A state of another one counts as none.
const GuardVersion = 1

// GuardProblem is something that is not in order.
type GuardProblem struct {
	ID    string    `json:"id"` // of the step, or the name of the check
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
	Next  time.Time `json:"next,omitzero"` // when it is tried again; zero = at the next check, or never
}

func (p GuardProblem) String() string { return p.ID + ": " + p.Text }

// GuardFix is what the service has fixed.
type GuardFix struct {
	At    time.Time `json:"at"`
	Steps []string  `json:"steps"`
}

// GuardTry counts how often a step was fixed, or could not be, since it last stayed in order.
type GuardTry struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// HNSSeen is what a loss of HNS's state is recognized by.
type HNSSeen struct {
	PID     int    `json:"pid,omitempty"`     // of HNS; 0 = not known
	Network string `json:"network,omitempty"` // id of Guard.Network, "" = there is none
	Service int    `json:"service,omitempty"` // PID of the service of Guard.Restart
}

// GuardPause is an operator's order to fix nothing on a machine.
type GuardPause struct {
	By     string    `json:"by"` // user@host
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero = until it is resumed
	Reason string    `json:"reason,omitempty"`
}

// Holds reports whether the pause counts at a time.
func (p *GuardPause) Holds(now time.Time) bool {
	return p != nil && (p.Until.IsZero() || now.Before(p.Until))
}

// PausedError is the error of a run that a pause has ended.
func PausedError(p *GuardPause) *Error {
	return &Error{Code: CodePaused, Summary: "the node is paused", Detail: "paused " + p.String(),
		Remedy: "end the pause with 'nodejoin unpause'; the next round goes on from here"}
}

// String is "by alice@ctl-1 since 2006-01-02T15:04:05Z, until 2006-01-02T16:04:05Z: reason".
func (p *GuardPause) String() string {
	text := fmt.Sprintf("by %s since %s", p.By, p.Since.UTC().Format(time.RFC3339))
	if !p.Until.IsZero() {
		text += ", until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

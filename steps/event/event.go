// Package event is the one stream of what a run does. The engine and the agent
// emit events and never print; displays (terminal, plain, JSON, quiet) render
// them. The encoding is versioned (Version) and only ever gains fields.
package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Version of the encoded stream; the first line of `--json` output carries it.
const Version = "1"

// Event is one of the types of this package.
type Event interface{ kind() string }

// HostState says that a host enters a phase of the run.
type HostState struct {
	Host string `json:"host"`
	// connecting, pushing_agent, agent_sent, agent_in_shell, moved_foreign, checking, waiting, applying, reconnecting,
	// rebooting, done, failed
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// StepStarted says that the apply of a step begins.
type StepStarted struct {
	Host   string `json:"host"`
	Step   string `json:"step"`
	Kind   string `json:"step_kind"`
	Action string `json:"action"`
	Title  string `json:"title,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// StepProgress reports the bytes moved, or what a wait still waits for.
type StepProgress struct {
	Host  string `json:"host"`
	Step  string `json:"step"`
	Done  int64  `json:"done,omitempty"`  // bytes
	Total int64  `json:"total,omitempty"` // bytes; 0 = not known
	Note  string `json:"note,omitempty"`
}

// StepDone says that a step was applied, was unchanged, failed or was not reached.
type StepDone struct {
	Host     string        `json:"host"`
	Step     string        `json:"step"`
	Result   string        `json:"result"` // changed, unchanged, failed, skipped
	Action   string        `json:"action,omitempty"`
	Duration time.Duration `json:"duration,omitempty"` // nanoseconds
	Summary  string        `json:"summary,omitempty"`  // of the failure
	Detail   string        `json:"detail,omitempty"`
	Remedy   string        `json:"remedy,omitempty"`
	Source   string        `json:"source,omitempty"` // "plan.join.hcl:12,3"
	Attempt  int           `json:"attempt,omitempty"`
}

// Warning reports something that does not stop the run.
type Warning struct {
	Host    string `json:"host,omitempty"`
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
}

func (HostState) kind() string    { return "host_state" }
func (StepStarted) kind() string  { return "step_started" }
func (StepProgress) kind() string { return "step_progress" }
func (StepDone) kind() string     { return "step_done" }
func (Warning) kind() string      { return "warning" }

// Encode writes e as one JSON object with its type first.
func Encode(e Event) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`{"type":%q`, e.kind())
	if len(b) > 2 {
		head += ","
	}
	return append([]byte(head), b[1:]...), nil
}

// Decode reads what Encode wrote.
func Decode(b []byte) (Event, error) {
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, err
	}
	switch t.Type {
	case "host_state":
		return decode[HostState](b)
	case "step_started":
		return decode[StepStarted](b)
	case "step_progress":
		return decode[StepProgress](b)
	case "step_done":
		return decode[StepDone](b)
	case "warning":
		return decode[Warning](b)
	}
	return nil, fmt.Errorf("unknown event type %q", t.Type)
}

func decode[T Event](b []byte) (Event, error) {
	var v T
	err := json.Unmarshal(b, &v)
	return v, err
}

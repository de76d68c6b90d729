package pull

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
)

// state is what the machine knows of the plan that it follows.
type state struct {
	Serial  int64     `json:"serial"`           // of the newest release whose apply has begun
	SHA256  string    `json:"sha256,omitempty"` // of its bundle
	Applied time.Time `json:"applied,omitzero"` // when it was done; zero = not yet
	// Cluster and Environment are those of its plan.
	Cluster     string `json:"cluster,omitempty"`
	Environment string `json:"environment,omitempty"`
	// RolledBack is its result, where its apply failed and was rolled back: it is not tried again. Zero = it was not.
	RolledBack Result    `json:"rolled_back,omitzero"`
	Result     Result    `json:"result"`         // of the last round
	Since      time.Time `json:"since,omitzero"` // when the status of the condition changed last
}

// Result is what a round came to.
type Result struct {
	Reason  Reason `json:"reason"`
	Serial  int64  `json:"serial,omitempty"` // of the release that it is about; 0 = of none
	Message string `json:"message"`
}

// Reason is a reason of the condition.
type Reason string

// The reasons.
const (
	Applied    Reason = "Applied"    // the newest release
	Waiting    Reason = "Waiting"    // for the window, or for other nodes
	Refused    Reason = "Refused"    // the release is not trusted, or is older
	Failed     Reason = "Failed"     // this machine has trouble of its own; nothing was changed
	NotFetched Reason = "NotFetched" // what there is now is not known
	ApplyFails Reason = "ApplyFailed"
	RolledBack Reason = "RolledBack" // the machine is as before the release, which is not tried again
	Rebooting  Reason = "RebootPending"
)

// status is that of the condition.
func (r Reason) status() string {
	switch r {
	case Applied:
		return "True"
	case NotFetched:
		return "Unknown"
	}
	return "False"
}

// readState reads a state; absent = nothing was applied yet. One that cannot be read is an error: an older release
// could be applied without it.
func readState(file string) (s state, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s cannot be read, and which release was applied last is not known: %w", file, err)
	}
	return s, nil
}

func (s state) write(file string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(b, '\n'), 0o600)
}

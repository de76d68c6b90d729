package agentbin

import "errors"

// ErrNoAgent says that no agent is embedded for the machine and none can be built.
var ErrNoAgent = errors.New("no agent for this machine")

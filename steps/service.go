package steps

import "nodejoin/steps/host"

var serviceKind = Kind{Name: "service", Place: OnHost, Doc: "a registered service, its settings and its run state",
	New: func() any { return &Service{} }}

// Service is a registered service. It is changed in place, and restarted when what
// it was last started from (command, environment, watched files) has changed.
type Service struct {
	host.ServiceConfig
	State host.ServiceState `json:"state,omitempty" doc:"\"running\" (default) or \"stopped\""`
	Watch []string          `json:"watch,omitempty" doc:"files whose change restarts the service"`
	Log   string            `json:"log,omitempty" doc:"its log file; the tail is shown when it ends by itself"`
}

// OwnershipMark ends the description of every service that nodejoin registers.
const OwnershipMark = "(managed by nodejoin)"

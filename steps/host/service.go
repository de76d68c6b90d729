package host

import "time"

// StartType says when a service starts.
type StartType string

const (
	StartAuto     StartType = "auto"
	StartDelayed  StartType = "delayed" // automatic, delayed
	StartManual   StartType = "manual"
	StartDisabled StartType = "disabled"
)

// ServiceConfig is a service as it is registered.
type ServiceConfig struct {
	Name        string           `json:"name"`
	DisplayName string           `json:"display_name,omitempty"` // default: Name
	Description string           `json:"description,omitempty"`
	Command     []string         `json:"command"` // program and arguments; the implementation quotes
	Start       StartType        `json:"start"`
	DependsOn   []string         `json:"depends_on,omitempty"`  // sorted
	Environment []string         `json:"environment,omitempty"` // "KEY=value", sorted
	Recovery    []RecoveryAction `json:"recovery,omitempty"`    // first, second, later failures
	// RecoveryReset is the time without failure, in seconds, after which the count
	// of failures starts again; 0 = never reset.
	RecoveryReset uint32 `json:"recovery_reset,omitempty"`
}

// RecoveryAction is what the service manager does after a failure.
type RecoveryAction struct {
	Action string        `json:"action"` // "restart" or "none"
	Delay  time.Duration `json:"delay"`  // kept in milliseconds
}

// ServiceState is the run state of a service.
type ServiceState string

const (
	ServiceStopped  ServiceState = "stopped"
	ServiceStarting ServiceState = "starting"
	ServiceRunning  ServiceState = "running"
	ServiceStopping ServiceState = "stopping"
)

// Service is a registered service as observed.
type Service struct {
	ServiceConfig
	State ServiceState `json:"state"`
	PID   int          `json:"pid,omitempty"` // 0 when not running
	// ExitCode of the last run, where the manager knows it.
	ExitCode int `json:"exit_code,omitempty"`
	// Restarting: it has ended by itself, and the manager is about to start it again.
	// State is then ServiceStarting; it can be stopped and started like any other.
	Restarting bool `json:"restarting,omitempty"`
	// Altered says what of its registration was changed by hand besides the
	// configuration; UpdateService undoes it. "" = nothing.
	Altered string `json:"altered,omitempty"`
}

package host

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// FeatureService is the service that changes a feature of Windows as SYSTEM. It is there only while it does so.
const FeatureService = "nodejoin-feature"

// ServicesReader observes registered services.
type ServicesReader interface {
	// Service describes a registered service.
	Service(ctx context.Context, name string) (Service, error)
	// Dependents names the running services that depend on name, directly or not,
	// in the order in which they must be stopped.
	Dependents(ctx context.Context, name string) ([]string, error)
	// Pods lists the pods of the container runtime that serves the CRI at a pipe or socket, those that have
	// ended too. Nothing that serves it is fs.ErrNotExist.
	Pods(ctx context.Context, cri string) ([]Pod, error)
	// Images lists the images of that container runtime, sorted as SortImages does. Nothing that serves it is
	// fs.ErrNotExist.
	Images(ctx context.Context, cri string) ([]Image, error)
	// Image is the image of a name, as pods give it ("registry.k8s.io/pause:3.10"); nil if that runtime has none of it.
	// Nothing that serves it is fs.ErrNotExist.
	Image(ctx context.Context, cri, name string) (*Image, error)
	// Processes are the ids of the processes that run the program of this path, without this one, ascending; also
	// those whose file was removed or replaced since (Linux).
	Processes(ctx context.Context, program string) ([]int, error)
}

// Pod is a pod as a container runtime knows it.
type Pod struct {
	ID        string `json:"id"` // of its sandbox
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Ended     bool   `json:"ended,omitempty"` // it no longer runs, and may have no network
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Image is an image that a container runtime has.
type Image struct {
	ID      string   `json:"id"`
	Tags    []string `json:"tags,omitempty"`    // "registry.k8s.io/pause:3.10"
	Digests []string `json:"digests,omitempty"` // "registry.k8s.io/pause@sha256:..."
	Size    uint64   `json:"size"`              // bytes
	Pinned  bool     `json:"pinned,omitempty"`  // the kubelet does not remove it
}

// PullError is what a container runtime says of an image that it cannot pull, in the words of the runtime.
type PullError struct{ Image, Message string }

func (e *PullError) Error() string {
	return "the container runtime cannot pull " + e.Image + ": " + e.Message
}

// SortImages puts images into the order of Reader.Images.
func SortImages(list []Image) []Image {
	slices.SortFunc(list, func(a, b Image) int {
		return cmp.Or(slices.Compare(a.Tags, b.Tags), slices.Compare(a.Digests, b.Digests), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Services observes and changes services, and runs programs.
type Services interface {
	ServicesReader

	// CreateService registers a service, stopped. An existing name is fs.ErrExist.
	CreateService(ctx context.Context, c ServiceConfig) error
	// UpdateService changes a registered service in place (never delete and create).
	UpdateService(ctx context.Context, c ServiceConfig) error
	// StartService requests a start and returns once the service manager has accepted it; starting a running
	// service is ErrServiceRunning.
	StartService(ctx context.Context, name string) error
	// StopService stops and waits until the service reports stopped and its process is gone, bounded by
	// ctx. A process that stays long after that report is killed. It is not an error if the service is
	// stopped already. Running dependents are ErrDependents.
	StopService(ctx context.Context, name string) error
	// DeleteService unregisters a stopped service. Running: ErrServiceRunning.
	// Registered services that depend on it: ErrDependents. Absent is not an error.
	DeleteService(ctx context.Context, name string) error
	// PullImage has a container runtime pull an image from its registry, and waits for it. What the runtime says when
	// it cannot is a *PullError; nothing that serves the CRI is fs.ErrNotExist.
	PullImage(ctx context.Context, cri, name string) error
	// RemovePod stops a pod of Pods with its containers and removes it; absence is not an error.
	RemovePod(ctx context.Context, cri, id string) error
	// EndProcesses kills the processes of Processes with those that they have started, and waits until they are
	// gone, bounded by ctx; that there is none is not an error. No service may be about to start them again.
	EndProcesses(ctx context.Context, program string) error
	// RunProgram runs a program to its end and returns its exit code; a code other than 0 is not an error. It
	// runs in its own folder, with this process's environment and rights and without input; its output is in
	// p.Log when the call returns. A missing program is fs.ErrNotExist. If ctx ends first, or this process ends,
	// the program and its children are killed. Services that it has started through the service manager keep
	// running.
	RunProgram(ctx context.Context, p Program) (exitCode int, err error)
}

// StartType says when a service starts.
type StartType string

const (
	StartAuto     StartType = "auto"
	StartDelayed  StartType = "delayed" // automatic, delayed
	StartManual   StartType = "manual"
	StartDisabled StartType = "disabled"
)

// ServiceRunVariable marks the process of a service in its environment, where no service manager of the system does. A
// program that a service starts and that outlives it must not have it.
const ServiceRunVariable = "NODEJOIN_SERVICE_RUN"

// ServiceConfig is a service as it is registered.
type ServiceConfig struct {
	Name        string           `json:"name" id:"true"`
	DisplayName string           `json:"display_name,omitempty"` // default: Name
	Description string           `json:"description,omitempty"`
	Command     []string         `json:"command"` // program and arguments; the implementation quotes
	Start       StartType        `json:"start" default:"auto" choices:"auto,delayed,manual,disabled"`
	DependsOn   []string         `json:"depends_on,omitempty"`  // sorted
	Environment []string         `json:"environment,omitempty"` // "KEY=value", sorted
	Recovery    []RecoveryAction `json:"recovery,omitempty"`    // first, second, later failures
	// RecoveryReset is the time without failure, in seconds, after which the failure count is reset; 0 = never.
	RecoveryReset uint32 `json:"recovery_reset,omitempty" with:"recovery" why:"there are no recovery actions"`
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
	// ExitCode of the last run, if the manager knows it.
	ExitCode int `json:"exit_code,omitempty"`
	// Restarting: it ended by itself, and the manager is about to restart it. State is then ServiceStarting; it
	// can be stopped and started like any other.
	Restarting bool `json:"restarting,omitempty"`
	// Altered says what of its registration was changed by hand besides the configuration; UpdateService
	// restores it. "" = nothing.
	Altered string `json:"altered,omitempty"`
}

// Program is a program that runs to its end.
type Program struct {
	Command []string // absolute path of the program, and its arguments
	// PathFirst is a folder that comes first in the program's PATH; "" = none.
	PathFirst string
	Log       string // file for all its output, replaced, AccessPrivate
}

func (p Program) name() string {
	if len(p.Command) == 0 {
		return ""
	}
	return p.Command[0]
}

// Env is the environment of the program, where env is that of the process that runs
// it; listSep stands between the folders of a PATH. Windows has names without case,
// and writes Path.
func (p Program) Env(env []string, listSep string) []string {
	if p.PathFirst == "" {
		return env
	}
	i := slices.IndexFunc(env, func(v string) bool { return len(v) > 4 && strings.EqualFold(v[:5], "PATH=") })
	if i < 0 {
		return append(slices.Clone(env), "PATH="+p.PathFirst)
	}
	env = slices.Clone(env)
	env[i] = env[i][:5] + p.PathFirst + listSep + env[i][5:]
	return env
}

package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
)

// Place says what a kind is a state of.
type Place string

const (
	OnHost    Place = "host"    // one machine; runs where the machine is
	OnCluster Place = "cluster" // the Kubernetes API; runs on the controller
)

// HostStep is a state of one machine.
//
// Check reads and never changes; arguments may still hold references (HasRef),
// which then count as "differs, not known yet". Apply makes the state so, is
// called only with a Change of Check that is not a no-op, and may be interrupted
// after any mutating call: Check and Apply again must then finish it.
type HostStep interface {
	Check(ctx context.Context, r host.Reader, e *Env) (Change, error)
	Apply(ctx context.Context, h host.Host, e *Env, c Change) (Outcome, error)
}

// ClusterStep is a state of the Kubernetes API.
type ClusterStep interface {
	Check(ctx context.Context, r kube.Reader, e *Env) (Change, error)
	Apply(ctx context.Context, a kube.API, e *Env, c Change) (Outcome, error)
}

// Kind describes a step kind. New gives a pointer to a zero argument struct that
// is a HostStep or a ClusterStep. Its exported fields are the arguments: `json`
// names them (`omitempty` = optional), `doc` says what they are.
type Kind struct {
	Name    string
	Doc     string
	Place   Place
	Timeout time.Duration // default bound of one apply; 0 = DefaultTimeout
	Outputs []string      // names of the values it gives to later steps
	// Shared: its state is the cluster's, not the node's. Of several nodes with the same
	// step the first makes it so.
	Shared bool
	// Reboots: its apply ends with the machine going down; whoever runs it looks again
	// once the machine is back.
	Reboots bool
	// Undo says how what the kind claims on a machine is undone, by the prefix of the key.
	Undo map[record.Prefix]Undo
	New  func() any
}

// DefaultTimeout bounds an apply whose kind and plan say nothing else.
const DefaultTimeout = 10 * time.Minute

// Env is what a step may use besides its machine or cluster.
type Env struct {
	Node      string // name of the node
	StepID    string
	Facts     host.Facts
	Artifacts Artifacts
	Record    *record.Record // of the host; nil on the cluster's side
	Undos     Undos          // of all kinds; nil on the cluster's side
	// Applied holds what this run's own Apply of the step gave, when Check verifies it.
	Applied map[string]string
	// Pending are the Touches (by Key) of earlier steps that were checked but not applied
	// yet, each with the step's id. nil outside of a check.
	Pending map[Touch]string
	// Future are the Digests of those earlier steps, by the Key of the file's Touch.
	Future map[Touch]string
	// Kubelet is the version that the Node reported before the run changed anything, ""
	// where there was no Node; nil = not known.
	Kubelet *string
	// Progress reports bytes of a transfer or the state of a wait; never nil.
	Progress func(event.StepProgress)
}

// Artifacts fetches and unpacks. The implementation is steps/artifact; it is
// handed in so that steps needs neither the network nor an archive library.
type Artifacts interface {
	// Open gives the bytes of src as they come, unverified: the caller checks the
	// digest before anything of them counts. size is -1 when not known. A File
	// source that was not staged on this machine is an *Error with CodeBlobMissing.
	Open(ctx context.Context, src Source) (r io.ReadCloser, size int64, err error)
	// Unpack reads a .tar, .tar.gz, .tgz or .zip archive (by name) and hands its
	// regular files to each, in order. Names are validated as paths of the target
	// OS and use '/'. What each does not read is skipped.
	Unpack(ctx context.Context, r io.Reader, name, targetOS string, each func(m Member, r io.Reader) error) error
}

// Member is a regular file of an archive.
type Member struct {
	Name       string // '/'-separated, relative, clean
	Size       int64
	Executable bool
}

// MustArgs encodes an argument struct as a Spec carries it.
func MustArgs(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("steps: arguments %s: %v", reflect.TypeOf(v), err))
	}
	return b
}

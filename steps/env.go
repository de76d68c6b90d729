package steps

import (
	"context"
	"io"
	"time"

	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// DefaultTimeout bounds an apply whose kind and plan say nothing else.
const DefaultTimeout = 10 * time.Minute

// Env is what a step may use besides its machine or cluster.
type Env struct {
	Node      string // name of the node
	StepID    string
	Plan      string   // that has the step, as Claim.Plans names it; "" = none
	Former    []string // earlier names of the plan
	Keep      bool     // what the step makes stays when the plan no longer has it
	Facts     host.Facts
	Artifacts Artifacts
	Tokens    Tokens // nil except in the service nodejoin-node
	// Clock is the time by which lives of tokens are judged; nil = time.Now.
	Clock   func() time.Time
	Record  *record.Record // of the host; nil on the cluster's side
	Undos   Undos          // of all kinds; nil on the cluster's side
	OverSSH bool           // of a leave: it came over SSH, whose server must not go with it
	Missing []string       // folders for nodejoin's record that were not there when it was first looked for
	// WasOpen: of a gate, it was open at the end of an earlier run with the same arguments.
	WasOpen bool
	// Undoes reports whether what is under way undoes a claim; nil = it undoes all of them.
	Undoes func(record.Key) bool
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

// WillChange reports which earlier step of a plan is about to alter t, or a folder that
// holds it.
func (e *Env) WillChange(t Touch) (step string, ok bool) {
	for t = t.Key(e.Facts.OS); ; {
		if step, ok = e.Pending[t]; ok || t.Path == "" {
			return step, ok
		}
		dir := host.PathKey(e.Facts.OS, host.Dir(e.Facts.OS, t.Path))
		if dir == t.Path || len(dir) >= len(t.Path) {
			return "", false
		}
		t.Path = dir
	}
}

// FutureDigest is what the file at path will hold once the earlier steps of a plan are
// applied: a sha256 or AbsentFile. ok is false where they do not alter it, or that is not
// known.
func (e *Env) FutureDigest(path string) (digest string, ok bool) {
	digest, ok = e.Future[Touch{Path: path}.Key(e.Facts.OS)]
	return digest, ok
}

// Tokens renews tokens of service accounts. The implementation is steps/nodeapi; it is handed in, as the API server is
// reached over the network.
type Tokens interface {
	// Renew requests a token of the same account, life and binding, with the token itself.
	Renew(ctx context.Context, r TokenRenewal) (token string, err error)
}

// TokenRenewal is a token and where it is valid.
type TokenRenewal struct {
	Server string // URL of the API server
	CA     []byte // PEM
	Token  string
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

// Undo says how the claims of one prefix are undone, by a leave and by a rollback, and
// what a snapshot holds of them. It stands in the file of the kind that claims them.
type Undo struct {
	// Called is what the thing is called, in front of its name: "firewall rule".
	Called string
	// Means is what it means that a plan no longer has it, in words; "" = nothing that anyone notices.
	Means string
	// New gives the undoing of one claim.
	New func(key record.Key, c record.Claim) (Undoing, error)
	// Order is when it is undone among the others.
	Order UndoOrder
	// Removes says what of path the undoing removes, of a claim of what was not there
	// before; nil = nothing.
	Removes func(e *Env, name, path string) Removal

	// Early reports whether what a plan no longer has goes before the plan's steps run,
	// because those may want the same port, or read it when they start; nil = it goes after
	// them.
	Early func(record.Key) bool
	// Stays says why a thing stays that a plan no longer has, until the machine leaves;
	// "" = it goes.
	Stays string
	// Replaced: it goes, too, where the plan has another thing with its prefix.
	Replaced bool
	// Halt gives what stops a thing ahead of its undoing, where something else still refers to it; nil = nothing.
	Halt func(key record.Key, c record.Claim) Undoing
	// Carries: pods of the Node are connected by it, so that they are drained before a plan removes it.
	Carries bool
	// Holds reports whether the thing with this name is needed for that of key: it is a
	// folder above it. Such a thing goes with the last that it holds; nil = it holds nothing.
	Holds func(e *Env, name string, key record.Key) bool
	// Now is the state of the thing as it is, nil where it is not there; from it New makes
	// what restores it. nil = programs change it, so that no state of it is nodejoin's.
	Now func(ctx context.Context, r host.Reader, e *Env, key record.Key, c record.Claim) (any, error)
	// Store is Now for a snapshot, where that needs more than to read; nil = Now.
	Store func(ctx context.Context, h host.Host, e *Env, key record.Key, c record.Claim) (any, error)

	// Snapshot is what a snapshot holds of it.
	Snapshot SnapshotMode
	// State reads the earlier state that a snapshot holds, nil where the thing is not
	// there; without it that is the earlier state of the claim.
	State func(ctx context.Context, r host.Reader, e *Env, name string) (any, error)
	// IsNew reports, for SnapshotNew, whether the thing was not there before the snapshot;
	// without it that is so where the claim has no earlier state.
	IsNew func(ctx context.Context, r host.Reader, e *Env, name string) bool
	// Rollback replaces New in a rollback, where a thing is rolled back in phases.
	Rollback func(key record.Key, item record.Item) (PhasedRollback, error)
}

// UndoOrder is when a claim is undone.
type UndoOrder int

const (
	UndoBackwards UndoOrder = iota // in the reverse order of the claims, after all others
	UndoServices                   // first
	// UndoOfPrograms is of what the programs of services make in the kernel or in the HNS:
	// it is undone once they have stopped, and before anything else.
	UndoOfPrograms
)

// SnapshotMode is what a snapshot holds of a claimed thing.
type SnapshotMode int

const (
	SnapshotBlob   SnapshotMode = iota // its earlier state in a file of its own, as it may hold a secret
	SnapshotInline                     // its earlier state in the record
	SnapshotNew                        // that it was not there, if so: what programs make comes and goes with them
	SnapshotNone                       // nothing: the old version works with it, and it takes a reboot
)

// Removal is what an undoing removes of a path.
type Removal int

const (
	RemovesNothing Removal = iota
	RemovesPath            // the file, or the folder once it is empty
	RemovesTree            // the file or folder with all that is in it
)

// Undoing undoes one claim. Check only reads: the Change says what is still to be done,
// and left why something stays that cannot or must not be undone ("" = nothing stays).
// Apply does it, and may be interrupted and called again.
type Undoing struct {
	Check func(ctx context.Context, r host.Reader, e *Env) (c Change, left string, err error)
	Apply func(ctx context.Context, h host.Host, e *Env) error
}

// PhasedRollback rolls one thing back in phases: Before comes ahead of the undoing of
// everything else, After behind it, and Last in the end. A phase may be empty.
type PhasedRollback struct {
	Before, After, Last Undoing
	// LastAfter are the names, with the same prefix, whose Last comes earlier.
	LastAfter []string
	// Restarted reports, after Last, whether it is a service that was started again.
	Restarted func() bool
}

// Undos is the undo of each prefix.
type Undos map[record.Prefix]Undo

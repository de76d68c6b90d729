package steps

import (
	"context"
	"fmt"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Undo says how the claims of one prefix are undone, by a leave and by a rollback, and
// what a snapshot holds of them. It stands in the file of the kind that claims them.
type Undo struct {
	// Called is what the thing is called, in front of its name: "firewall rule".
	Called string
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

// Rank is the place of the order in a run.
func (o UndoOrder) Rank() int {
	switch o {
	case UndoServices:
		return 0
	case UndoOfPrograms:
		return 1
	}
	return 2
}

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

// UndosOf collects what kinds declare.
func UndosOf(kinds []Kind) Undos {
	out := Undos{}
	for _, k := range kinds {
		for prefix, u := range k.Undo {
			out[prefix] = u
		}
	}
	return out
}

// Undoing returns how a claim is undone.
func (u Undos) Undoing(key record.Key, c record.Claim) (Undoing, error) {
	undo, err := u.Of(key)
	if err != nil {
		return Undoing{}, err
	}
	return undo.New(key, c)
}

// Of returns the undo of the key's prefix; the error says that this nodejoin has none.
func (u Undos) Of(key record.Key) (Undo, error) {
	undo, ok := u[key.Prefix]
	if !ok {
		return Undo{}, &Error{Code: CodeInvalid, Summary: "the record holds a claim that this nodejoin cannot undo",
			Detail: key.String(),
			Remedy: "leave with the nodejoin that made it, or a newer one"}
	}
	return undo, nil
}

// Removes says what a leave removes of path: nodejoin made it, or a program of ours. A
// folder of nodejoin's stays where others have put something into it.
func (e *Env) Removes(path string) Removal {
	if host.Within(e.Facts.OS, path, e.Facts.DataDir) {
		return RemovesTree
	}
	out := RemovesNothing
	for key, c := range e.Record.Claims {
		removes := e.Undos[key.Prefix].Removes
		if removes != nil && !c.Existed && !c.Undone && (e.Undoes == nil || e.Undoes(key)) {
			out = max(out, removes(e, key.Name, path))
		}
	}
	return out
}

// RemovesItself is Undo.Removes of a file or folder that goes alone.
func RemovesItself(e *Env, name, path string) Removal {
	if host.SamePath(e.Facts.OS, name, path) {
		return RemovesPath
	}
	return RemovesNothing
}

// Restored is the Change of something that is given its earlier state.
func Restored(diffs ...Diff) Change {
	return Change{Action: ActionUpdate, Reason: "as it was before nodejoin", Diffs: diffs}
}

// unknownPrefix is the error of a claim that nothing could undo.
func unknownPrefix(key record.Key) error {
	return fmt.Errorf("internal error: no kind says how to undo %q", key)
}

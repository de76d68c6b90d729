package steps

import (
	"fmt"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
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

package executor

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/record"
)

// Removals is what the plan no longer names: what the record says that the plan made on the
// machine, and that none of its steps makes.
type Removals struct {
	Items []Removal `json:"items,omitempty"` // in the order in which they are removed
	// Steps and Of count the steps that made the items, and those that made anything.
	Steps int `json:"steps,omitempty"`
	Of    int `json:"of,omitempty"`
}

// Pending counts the items that are to be removed or forgotten.
func (r Removals) Pending() int { return len(r.Removing()) }

// Most reports whether more than half of what the plan made goes.
func (r Removals) Most() bool { return 2*r.Steps > r.Of }

// Removing are the items that are to be removed or forgotten.
func (r Removals) Removing() (out []Removal) {
	for _, i := range r.Items {
		if !i.Change.NoOp() {
			out = append(out, i)
		}
	}
	return out
}

// Removal is one thing that the plan no longer names.
type Removal struct {
	Key  record.Key `json:"key"`  // "service:csi-proxy"
	Step string     `json:"step"` // that made it
	// Change has the action remove, or forget where the plan kept the thing; it is a no-op
	// where the thing stays otherwise.
	Change steps.Change `json:"change,omitzero"`
	// Restored: it was there before nodejoin, and is as it was then.
	Restored bool `json:"restored,omitempty"`
	// Left says why it stays, or what of it; "" = nothing stays.
	Left string       `json:"left,omitempty"`
	Err  *steps.Error `json:"err,omitempty"`
}

// RemoveRequest asks for the removal of what the plan no longer names.
type RemoveRequest struct {
	Request // with Whole
	// Early: only what has to go before the steps run.
	Early bool `json:"early,omitempty"`
	// Halt: only these of the services that go are stopped, with those that depend on them. They are removed
	// later: the step that comes next still depends on them.
	Halt []string `json:"halt,omitempty"`
}

// RemoveReply is the result of a removal.
type RemoveReply struct {
	Removed   []Removal    `json:"removed,omitempty"`
	Left      []Removal    `json:"left,omitempty"` // what stays, with why
	Failed    string       `json:"failed,omitempty"`
	Err       *steps.Error `json:"err,omitempty"` // why it ended early; the next run continues from there
	Mutations int64        `json:"mutations"`
}

// removal is one look at what the plan no longer names.
type removal struct {
	x       *Executor
	req     Request
	undo    *undoRun
	removes map[record.Key]bool
	made    []record.Key // by the plan's steps
	forget  []record.Key // what the plan gives up and keeps
}

// newRemoval compares the claims with the steps. A step whose arguments are not all known
// keeps everything of the sort that it makes.
func (x *Executor) newRemoval(req Request, values map[string]string) (*removal, error) {
	m := &removal{x: x, req: req, removes: map[record.Key]bool{}}
	m.undo = &undoRun{x: x, node: req.Node, command: "remove",
		undoes: func(key record.Key) bool { return m.removes[key] }}
	var made []record.Key
	for _, s := range req.Steps {
		keys, err := x.claimsOf(s, values)
		if err != nil {
			return nil, err
		}
		made = append(made, keys...)
	}
	m.made = made
	old := x.oldIs(made)
	for _, key := range x.record.Active() {
		c := x.record.Claims[key]
		c = c.Renamed(req.Former, req.Plan)
		ours := len(c.Plans) == 1 && c.Plans[0] == req.Plan || c.Old() && old
		switch {
		case record.Own(x.facts, key) || !ours || x.needed(key, made) || c.UntilLeave:
		case c.Keep:
			m.forget = append(m.forget, key)
		default:
			m.removes[key] = true
		}
	}
	for _, key := range m.forget {
		m.stays(key)
	}
	return m, nil
}

// stays takes a thing out of those that go, with the folders that hold it.
func (m *removal) stays(key record.Key) {
	delete(m.removes, key)
	for other := range m.removes {
		if m.x.holds(other, key) {
			delete(m.removes, other)
		}
	}
}

// oldIs reports whether the claims whose plan is not noted are of the plan whose steps make
// these things: it still makes most of them.
func (x *Executor) oldIs(made []record.Key) bool {
	kept, all := 0, 0
	for _, key := range x.record.Active() {
		if !x.record.Claims[key].Old() {
			continue
		}
		all++
		if x.needed(key, made) {
			kept++
		}
	}
	return 2*kept > all
}

// claimsOf are the keys of all that a step claims.
func (x *Executor) claimsOf(s steps.Spec, values map[string]string) ([]record.Key, error) {
	o, err := x.open(s, values)
	switch {
	case err != nil:
		return nil, err
	case o.kind.Place != steps.OnHost:
		return nil, nil
	case o.kind.Claims != nil:
		return o.kind.Claims(o.step, x.env("", s.ID)), nil
	case o.kind.Makes != nil:
		return []record.Key{o.kind.Makes(o.step, x.facts.OS).Key}, nil
	}
	return nil, nil
}

// needed reports whether one of the made things is that of key, or may be, or lies in it.
func (x *Executor) needed(key record.Key, made []record.Key) bool {
	return slices.ContainsFunc(made, func(m record.Key) bool {
		unknown := m.Prefix == key.Prefix && steps.HasRef(m.Name)
		// A program of the plan goes on with the file that a step of an earlier plan gave it.
		goesOn := m.Prefix == record.ProgramData && x.same(record.File.Of(m.Name), key)
		return unknown || goesOn || x.same(m, key) && !takesTurns(m, key) || x.holds(key, m)
	})
}

// takesTurns reports whether one is a file and the other a folder, of which one place holds one at a time.
func takesTurns(a, b record.Key) bool {
	return a.Prefix == record.File && b.Prefix == record.Directory ||
		a.Prefix == record.Directory && b.Prefix == record.File
}

func (x *Executor) holds(key, other record.Key) bool {
	holds := x.undos[key.Prefix].Holds
	return holds != nil && key != other && holds(x.env("", ""), key.Name, other)
}

// same reports whether two keys name one thing of the machine.
func (x *Executor) same(a, b record.Key) bool {
	return a == b || steps.Thing{Key: a, Words: "a"}.Same(x.facts.OS) == steps.Thing{Key: b, Words: "b"}.Same(x.facts.OS)
}

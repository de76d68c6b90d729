package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
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

// Pending counts the items that are to be removed.
func (r Removals) Pending() int { return len(r.Removing()) }

// Most reports whether more than half of what the plan made goes.
func (r Removals) Most() bool { return 2*r.Steps > r.Of }

// Removing are the items that are to be removed.
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
	// Change has the action remove; it is a no-op where the thing stays.
	Change steps.Change `json:"change,omitzero"`
	// Restored: it was there before nodejoin, and is as it was then.
	Restored bool `json:"restored,omitempty"`
	// Left says why it stays, or what of it; "" = nothing stays.
	Left string       `json:"left,omitempty"`
	Err  *steps.Error `json:"err,omitempty"`
}

// RemoveRequest asks for the removal of what the plan no longer names.
type RemoveRequest struct {
	Request // Whole is meant
	// Early: only what has to go before the steps run.
	Early bool `json:"early,omitempty"`
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
	x      *Executor
	req    Request
	undo   *undoRun
	goes   map[record.Key]bool
	forget []record.Key // what the plan gives up and keeps
}

// newRemoval compares the claims with the steps. A step whose arguments are not all known
// keeps everything of the sort that it makes.
func (x *Executor) newRemoval(req Request, values map[string]string) (*removal, error) {
	m := &removal{x: x, req: req, goes: map[record.Key]bool{}}
	m.undo = &undoRun{x: x, node: req.Node, command: "remove", undoes: func(key record.Key) bool { return m.goes[key] }}
	var made []record.Key
	for _, s := range req.Steps {
		keys, err := x.claimsOf(s, values)
		if err != nil {
			return nil, err
		}
		made = append(made, keys...)
	}
	old := x.oldIs(made)
	for _, key := range x.record.Active() {
		c := x.record.Claims[key]
		ours := len(c.Plans) == 1 && c.Plans[0] == req.Plan || c.Old() && old
		switch {
		case record.Own(x.facts, key) || !ours || x.needed(key, made) || c.Step == steps.WayInStep:
		case c.Keep:
			m.forget = append(m.forget, key)
		default:
			m.goes[key] = true
		}
	}
	for _, key := range m.forget {
		m.stays(key)
	}
	return m, nil
}

// stays takes a thing out of those that go, with the folders that hold it.
func (m *removal) stays(key record.Key) {
	delete(m.goes, key)
	for other := range m.goes {
		if m.x.holds(other, key) {
			delete(m.goes, other)
		}
	}
}

// checkAll finds what is to be done about each of the keys that goes, folders last: they
// stay with what stays in them.
func (m *removal) checkAll(ctx context.Context, keys []record.Key) (items []Removal) {
	found := map[record.Key]Removal{}
	for _, holders := range []bool{false, true} {
		for _, key := range keys {
			if !m.goes[key] || (m.x.undos[key.Prefix].Holds != nil) != holders {
				continue
			}
			item := m.check(ctx, key)
			// A folder may be empty once what it holds is removed: it is checked again then.
			if found[key] = item; item.Change.NoOp() && item.Left != "" && !holders {
				m.stays(key)
			}
		}
	}
	for _, key := range keys {
		if item, ok := found[key]; ok {
			items = append(items, item)
		}
	}
	return items
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
	step, kind, err := x.kinds.Open(s, values)
	switch {
	case err != nil:
		return nil, err
	case kind.Place != steps.OnHost:
		return nil, nil
	case kind.Claims != nil:
		return kind.Claims(step, x.env("", s.ID)), nil
	case kind.Makes != nil:
		return []record.Key{kind.Makes(step, x.facts.OS).Key}, nil
	}
	return nil, nil
}

// needed reports whether one of the made things is that of key, or may be, or lies in it.
func (x *Executor) needed(key record.Key, made []record.Key) bool {
	return slices.ContainsFunc(made, func(m record.Key) bool {
		unknown := m.Prefix == key.Prefix && steps.HasRef(m.Name)
		return unknown || x.same(m, key) || x.holds(key, m)
	})
}

func (x *Executor) holds(key, other record.Key) bool {
	holds := x.undos[key.Prefix].Holds
	return holds != nil && key != other && holds(x.env("", ""), key.Name, other)
}

// same reports whether two keys name one thing of the machine.
func (x *Executor) same(a, b record.Key) bool {
	return a == b || steps.Thing{Key: a, Words: "a"}.Same(x.facts.OS) == steps.Thing{Key: b, Words: "b"}.Same(x.facts.OS)
}

// check finds what is to be done about one thing.
func (m *removal) check(ctx context.Context, key record.Key) Removal {
	c := m.x.record.Claims[key]
	out := Removal{Key: key, Step: c.Step, Restored: c.Existed}
	r, _ := m.undo.check(ctx, m.x.env(m.req.Node, key.String()), key, m.x.undoing(key))
	out.Change, out.Left, out.Err = r.Change, r.Left, r.Err
	if e := out.Err; e != nil && e.Code == steps.CodeFailed {
		out.Left, out.Err = e.Error(), nil // something of others needs it
	}
	if out.Change.NoOp() {
		return out
	}
	switch changed, err := m.changed(ctx, key, c); {
	case err != nil:
		out.Err = steps.AsError(err)
	case m.x.undos[key.Prefix].Stays != "":
		out.Change, out.Left = steps.Change{}, m.x.undos[key.Prefix].Stays
	case changed && !m.req.PruneChanged:
		out.Change, out.Left = steps.Change{}, "it was changed since nodejoin made it; --prune-changed removes it"
		if c.Existed {
			out.Left = "it was changed since nodejoin changed it; --prune-changed restores what was there before"
		}
	default:
		out.Change.Action = steps.ActionRemove
	}
	return out
}

// changed reports whether a thing is in another state than nodejoin has left it in.
func (m *removal) changed(ctx context.Context, key record.Key, c record.Claim) (bool, error) {
	if c.State == "" {
		return false, nil
	}
	state, err := m.x.state(ctx, key, c)
	return err == nil && state != c.State, err
}

// state is the digest of a thing's state; "" where no state of it is nodejoin's.
func (x *Executor) state(ctx context.Context, key record.Key, c record.Claim) (string, error) {
	now := x.undos[key.Prefix].Now
	if now == nil {
		return "", nil
	}
	v, err := now(ctx, x.host, x.env("", c.Step), key, c)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// checkRemovals finds what the plan no longer names; nothing is changed.
func (x *Executor) checkRemovals(ctx context.Context, req Request, values map[string]string) (Removals, error) {
	m, err := x.newRemoval(req, values)
	if err != nil {
		return Removals{}, err
	}
	var out Removals
	going := map[string]bool{}
	for _, item := range m.checkAll(ctx, x.claimed(ctx)) {
		if item.Change.NoOp() && item.Left == "" && item.Err == nil {
			continue
		}
		out.Items = append(out.Items, item)
		if !item.Change.NoOp() {
			going[item.Step] = true
		}
	}
	all := map[string]bool{}
	for _, key := range x.record.Active() {
		if !record.Own(x.facts, key) {
			all[x.record.Claims[key].Step] = true
		}
	}
	out.Steps, out.Of = len(going), len(all)
	return out, nil
}

// Remove undoes what the plan no longer names, in the order of a leave. It stops at the
// first failure; the next run continues from there.
func (x *Executor) Remove(ctx context.Context, req RemoveRequest) (RemoveReply, error) {
	if err := x.prepare(ctx); err != nil {
		return RemoveReply{}, err
	}
	values := steps.FactValues(x.facts)
	for k, v := range req.Values {
		values[k] = v
	}
	m, err := x.newRemoval(req.Request, values)
	if err != nil {
		return RemoveReply{}, err
	}
	reply := RemoveReply{}
	if err := m.run(ctx, req.Early, &reply); err != nil {
		reply.Err = steps.AsError(err)
	}
	if reply.Err == nil && !req.Early {
		reply.Err = steps.AsError(m.settle(ctx, values))
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

func (m *removal) run(ctx context.Context, early bool, reply *RemoveReply) error {
	var keys []record.Key
	for _, key := range m.x.claimed(ctx) {
		if !m.goes[key] {
			continue
		}
		isEarly, err := m.early(ctx, key)
		if err != nil {
			return err
		}
		if isEarly || !early {
			keys = append(keys, key)
		}
	}
	items := m.checkAll(ctx, keys)
	for _, item := range items {
		if item.Err != nil {
			reply.Failed = item.Key.String()
			return item.Err
		}
	}
	if err := m.mark(ctx, items); err != nil {
		return err
	}
	for _, item := range items {
		switch {
		case m.goes[item.Key]:
			item = m.check(ctx, item.Key) // again: a key of the registry may be empty by now
		case !item.Change.NoOp(): // what it holds stays after all
			continue
		}
		switch {
		case item.Err != nil:
			reply.Failed = item.Key.String()
			return item.Err
		case !item.Change.NoOp():
			if err := m.one(ctx, item, reply); err != nil {
				return err
			}
		case item.Left != "":
			reply.Left = append(reply.Left, item)
		}
	}
	return nil
}

// mark notes what goes before anything does, so that a boot in between starts none of it.
func (m *removal) mark(ctx context.Context, items []Removal) error {
	changed := false
	for _, item := range items {
		c := m.x.record.Claims[item.Key]
		if !item.Change.NoOp() && !c.Removing {
			c.Removing, changed = true, true
			m.x.record.Claims[item.Key] = c
		}
	}
	if !changed {
		return nil
	}
	return m.x.record.Save(ctx, m.x.host, m.x.facts)
}

// one removes one thing. A program that still runs keeps its file until the next run.
func (m *removal) one(ctx context.Context, item Removal, reply *RemoveReply) error {
	if err := m.snapshot(ctx, item.Key); err != nil {
		reply.Failed = item.Key.String()
		return err
	}
	r := m.undo.run(ctx, item.Key, m.x.undoing(item.Key))
	switch {
	case r.Err != nil && r.Err.Summary == steps.StillRuns:
		item.Left = r.Err.Error() + "; the next apply removes it once the program has ended"
		reply.Left = append(reply.Left, item)
		m.stays(item.Key)
		return nil
	case r.Err != nil:
		reply.Failed = item.Key.String()
		return r.Err
	}
	m.x.record.SetUndone(item.Key)
	if err := m.x.record.Save(context.WithoutCancel(ctx), m.x.host, m.x.facts); err != nil {
		return err
	}
	reply.Removed = append(reply.Removed, item)
	if r.Left != "" {
		item.Left = r.Left
		reply.Left = append(reply.Left, item)
	}
	return nil
}

// snapshot notes a thing in an open snapshot as it is, so that a rollback restores it.
func (m *removal) snapshot(ctx context.Context, key record.Key) error {
	if !m.x.record.Snapshot.Wants(key) {
		return nil
	}
	c, undo, e := m.x.record.Claims[key], m.x.undos[key.Prefix], m.x.env(m.req.Node, key.String())
	n := record.New{Key: key, Detail: c.Detail}
	var err error
	switch {
	case undo.Store != nil:
		n.Previous, err = undo.Store(ctx, m.x.host, e, key, c)
	case undo.Now != nil:
		n.Previous, err = undo.Now(ctx, m.x.host, e, key, c)
	}
	if err != nil {
		return err
	}
	added, err := e.Snapshot(ctx, m.x.host, n)
	if err != nil || !added {
		return err
	}
	return m.x.record.Save(ctx, m.x.host, m.x.facts)
}

// free reports whether no service that stays depends on this one: a step has to change that
// first.
func (m *removal) free(ctx context.Context, key record.Key) (bool, error) {
	if key.Prefix != record.Service {
		return true, nil
	}
	dependents, err := m.x.host.Dependents(ctx, key.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return !slices.ContainsFunc(dependents, func(name string) bool { return !m.goes[record.Service.Of(name)] }), err
}

// early reports whether a thing goes before the steps run: by its sort, or because a
// service reads it without its command saying so, and would read it again as it starts.
func (m *removal) early(ctx context.Context, key record.Key) (bool, error) {
	if early := m.x.undos[key.Prefix].Early; early != nil && early(key) {
		return m.free(ctx, key)
	}
	if key.Prefix != record.File {
		return false, nil
	}
	for name, start := range m.x.record.Starts {
		if !slices.ContainsFunc(start.Watch, func(p string) bool { return host.SamePath(m.x.facts.OS, p, key.Name) }) {
			continue
		}
		svc, err := m.x.host.Service(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		default:
			used := strings.ToLower(strings.Join(append(svc.Command, svc.Environment...), "\n"))
			return !strings.Contains(used, strings.ToLower(host.Base(m.x.facts.OS, key.Name))), nil
		}
	}
	return false, nil
}

// settle notes in the record what the plan has now, and forgets what it keeps.
func (m *removal) settle(ctx context.Context, values map[string]string) error {
	rec, changed := m.x.record, len(m.forget) > 0
	for _, key := range m.forget {
		delete(rec.Claims, key)
	}
	for _, s := range m.req.Steps {
		keys, err := m.x.claimsOf(s, values)
		if err != nil {
			return err
		}
		for _, key := range keys {
			c, ok := rec.Lookup(key)
			if !ok || c.Undone || c.State != "" && slices.Contains(c.Plans, m.req.Plan) {
				continue
			}
			next := c.With(m.req.Plan)
			if next.State, err = m.x.state(ctx, key, c); err != nil {
				return err
			}
			changed = changed || next.State != c.State || len(next.Plans) > len(c.Plans)
			rec.Claims[key] = next
		}
	}
	if !changed {
		return nil
	}
	return rec.Save(ctx, m.x.host, m.x.facts)
}

// noteStates notes the states in which a step has left what it makes; known is false after
// a failure.
func (x *Executor) noteStates(ctx context.Context, s steps.Spec, values map[string]string, known bool) {
	keys, err := x.claimsOf(s, values)
	if err != nil {
		return
	}
	for _, key := range keys {
		c, ok := x.record.Lookup(key)
		if !ok || c.Undone {
			continue
		}
		c.State = ""
		if known {
			c.State, _ = x.state(ctx, key, c) // one that cannot be read is not known
		}
		x.record.Claims[key] = c
	}
}

// noted says what the record is to say of what a step makes, and does not: whether it is
// kept, and that it is not removed.
func (x *Executor) noted(s steps.Spec, values map[string]string) (out []steps.Diff) {
	keep, removing := false, false
	x.eachNoted(s, values, func(_ record.Key, c record.Claim) {
		keep, removing = keep || c.Keep != s.Keep, removing || c.Removing
	})
	if keep {
		out = append(out, steps.Diff{Name: "keep", Have: yesNo(!s.Keep), Want: yesNo(s.Keep)})
	}
	if removing {
		out = append(out, steps.Diff{Name: "removal", Have: "interrupted", Want: "in the plan again"})
	}
	return out
}

func yesNo(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// note makes the record say it.
func (x *Executor) note(s steps.Spec, values map[string]string) (changed bool) {
	x.eachNoted(s, values, func(key record.Key, c record.Claim) {
		changed = changed || c.Keep != s.Keep || c.Removing
		c.Keep, c.Removing = s.Keep, false
		x.record.Claims[key] = c
	})
	return changed
}

func (x *Executor) eachNoted(s steps.Spec, values map[string]string, f func(record.Key, record.Claim)) {
	keys, err := x.claimsOf(s, values)
	if err != nil {
		return // the check of the step says it
	}
	for _, key := range keys {
		if c, ok := x.record.Lookup(key); ok && !c.Undone {
			f(key, c)
		}
	}
}

// note adds what the record is to say to the result of a check.
func (w *walk) note(r *steps.Result, diffs []steps.Diff) {
	if r.Err != nil || len(diffs) == 0 {
		return
	}
	if r.Change.NoOp() {
		r.Change.Action = steps.ActionUpdate
		w.changed[r.ID] = true
	}
	r.Change.Diffs = append(r.Change.Diffs, diffs...)
}

// Standing leaves out the steps whose thing was removed, or is being removed: none of them
// is to run again after a boot.
func (x *Executor) Standing(ctx context.Context, list []steps.Spec) ([]steps.Spec, error) {
	if err := x.prepare(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(list), func(s steps.Spec) bool {
		step, kind, err := x.kinds.Decode(s)
		var key record.Key
		switch {
		case err != nil:
			return false
		case kind.Gate != nil:
			key = record.Service.Of(kind.Gate(step))
		case kind.Makes != nil:
			key = kind.Makes(step, x.facts.OS).Key
		}
		c, ok := x.record.Lookup(key)
		return ok && (c.Undone || c.Removing)
	}), nil
}

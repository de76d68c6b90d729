package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/record"
)

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
	for _, key := range m.forget {
		out.Items = append(out.Items, Removal{Key: key, Step: x.record.Claims[key].Step,
			Left:   "keep = true; nodejoin forgets it",
			Change: steps.Change{Action: steps.ActionForget}})
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

// checkAll finds what is to be done about each of the keys that goes, folders last: they
// stay with what stays in them.
func (m *removal) checkAll(ctx context.Context, keys []record.Key) (items []Removal) {
	found := map[record.Key]Removal{}
	for _, holders := range []bool{false, true} {
		for _, key := range keys {
			if !m.removes[key] || (m.x.undos[key.Prefix].Holds != nil) != holders {
				continue
			}
			item := m.check(ctx, key)
			// A folder may be empty once what it holds is removed: it is checked again then.
			found[key] = item
			if item.Change.NoOp() && item.Left != "" && !holders {
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
	changed, err := m.changed(ctx, key, c)
	needs := ""
	if err == nil {
		needs, err = m.needs(ctx, key)
	}
	switch {
	case err != nil:
		out.Err = steps.AsError(err)
	case needs != "":
		out.Change, out.Left = steps.Change{}, "service "+needs+" stays and depends on it"
	case m.keeps(key):
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

// keeps reports whether a thing stays that the plan no longer has, because of what it is.
func (m *removal) keeps(key record.Key) bool {
	undo := m.x.undos[key.Prefix]
	return undo.Stays != "" && !(undo.Replaced && slices.ContainsFunc(m.made, func(other record.Key) bool {
		return other.Prefix == key.Prefix
	}))
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

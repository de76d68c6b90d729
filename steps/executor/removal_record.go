package executor

import (
	"context"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/record"
)

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
			next := c.Renamed(m.req.Former, m.req.Plan).With(m.req.Plan)
			if !ok || c.Undone || c.State != "" && slices.Equal(c.Plans, next.Plans) {
				continue
			}
			if next.State, err = m.x.state(ctx, key, c); err != nil {
				return err
			}
			changed = changed || next.State != c.State || !slices.Equal(c.Plans, next.Plans)
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

// noted says what the record is to say of what a step makes, and does not: how long it is
// kept, and that it is not removed.
func (x *Executor) noted(s steps.Spec, values map[string]string) (out []steps.Diff) {
	want, have, removing := "", "", false
	x.eachNoted(s, values, func(_ record.Key, c record.Claim, keep bool) {
		if h, w := kept(c.Keep, c.UntilLeave), kept(keep, s.UntilLeave); h != w {
			have, want = h, w
		}
		removing = removing || c.Removing
	})
	if have != "" {
		out = append(out, steps.Diff{Name: "keep", Have: have, Want: want})
	}
	if removing {
		out = append(out, steps.Diff{Name: "removal", Have: "interrupted", Want: "in the plan again"})
	}
	return out
}

// kept says whether a thing stays that the plan no longer has.
func kept(keep, untilLeave bool) string {
	switch {
	case keep:
		return "true"
	case untilLeave:
		return "until the machine leaves"
	}
	return "false"
}

// note makes the record say it.
func (x *Executor) note(s steps.Spec, values map[string]string) (changed bool) {
	x.eachNoted(s, values, func(key record.Key, c record.Claim, keep bool) {
		changed = changed || c.Keep != keep || c.UntilLeave != s.UntilLeave || c.Removing
		c.Keep, c.UntilLeave, c.Removing = keep, s.UntilLeave, false
		x.record.Claims[key] = c
	})
	return changed
}

// eachNoted calls f with each claim of a step, and whether the plan keeps it.
func (x *Executor) eachNoted(s steps.Spec, values map[string]string, f func(record.Key, record.Claim, bool)) {
	keys, err := x.claimsOf(s, values)
	if err != nil {
		return // the check of the step says it
	}
	var keeps []record.Key
	if o, err := x.open(s, values); err == nil && o.kind.Keeps != nil {
		keeps = o.kind.Keeps(o.step)
	}
	for _, key := range keys {
		if c, ok := x.record.Lookup(key); ok && !c.Undone {
			f(key, c, s.Keep || slices.Contains(keeps, key))
		}
	}
}

// note adds what the record is to say to the result of a check.
func (w *pass) note(r *steps.Result, diffs []steps.Diff) {
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
		return slices.ContainsFunc(x.standsOn(s), func(key record.Key) bool {
			c, ok := x.record.Lookup(key)
			return ok && (c.Undone || c.Removing)
		})
	}), nil
}

// standsOn are the things without which a step is not to run after a boot.
func (x *Executor) standsOn(s steps.Spec) []record.Key {
	step, kind, err := x.kinds.Decode(s)
	switch {
	case err != nil:
		return nil // the check of the step says it
	case kind.Gate != nil:
		return []record.Key{record.Service.Of(kind.Gate(step))}
	case kind.Starts != nil:
		return []record.Key{record.Service.Of(kind.Starts(step))}
	case kind.Makes != nil:
		return []record.Key{kind.Makes(step, x.facts.OS).Key}
	case kind.Claims != nil:
		return kind.Claims(step, x.env("", s.ID))
	}
	return nil
}

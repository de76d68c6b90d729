package kinds

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var formerSettingsKind = steps.Kind{Name: "former_settings", Place: steps.OnHost, Doc: "settings that an earlier apply of the plan made and that it no longer names are as they were before; those that it makes now are noted",
	New: func() any { return &FormerSettings{} }}

// FormerSettings undoes settings of the machine that the plan no longer names. It comes
// before those that the plan has, which may be in the way of each other: of ports that
// overlap, one range can be reserved.
//
// What another plan has noted on the machine stays. An open snapshot notes nothing
// of what is undone: the old version, which it would be for, has its own settings in its
// services.
type FormerSettings struct {
	Plan string       `json:"plan" doc:"name of the plan's cluster block"`
	Keys []record.Key `json:"keys,omitempty" doc:"what the plan's settings make, as the record names it"`
}

// former are the claims of settings that are to be undone, the last one first.
func (f *FormerSettings) former(r *record.Record) []record.Key {
	var out []record.Key
	for _, key := range r.Settings[f.Plan] {
		others := func(plan string) bool { return plan != f.Plan && slices.Contains(r.Settings[plan], key) }
		c, ok := r.Lookup(key)
		if !slices.Contains(f.Keys, key) && ok && !c.Undone && !slices.ContainsFunc(slices.Collect(maps.Keys(r.Settings)), others) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b record.Key) int { return cmp.Compare(r.Claims[b].Seq, r.Claims[a].Seq) })
	return out
}

// unnoted counts the settings that the record does not have as the plan's.
func (f *FormerSettings) unnoted(r *record.Record) (keys []record.Key) {
	for _, key := range f.Keys {
		if !slices.Contains(r.Settings[f.Plan], key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (f *FormerSettings) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	var c steps.Change
	for _, key := range f.former(e.Record) {
		u, err := e.Undos.Undoing(key, e.Record.Claims[key])
		if err != nil {
			return steps.Change{}, err
		}
		_, left, err := u.Check(ctx, r, e)
		if err != nil {
			return steps.Change{}, err
		}
		if left == "" {
			c.Action = steps.ActionUpdate
			c.Diffs = append(c.Diffs, steps.Diff{Name: string(key.Prefix) + " " + key.Name, Have: "of the plan", Want: "as it was before"})
		}
	}
	if n := len(f.unnoted(e.Record)); n > 0 {
		c.Action = steps.ActionUpdate
		c.Diffs = append(c.Diffs, steps.Diff{Name: "settings", Want: plural(n, "1 setting", fmt.Sprintf("%d settings", n)) + " noted as the plan's"})
	}
	return c, nil
}

func (f *FormerSettings) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	for _, key := range f.former(e.Record) {
		u, err := e.Undos.Undoing(key, e.Record.Claims[key])
		if err != nil {
			return steps.Outcome{}, err
		}
		c, left, err := u.Check(ctx, h, e)
		if err == nil && !c.NoOp() {
			err = u.Apply(ctx, h, e)
		}
		if err != nil {
			return steps.Outcome{}, err
		}
		if left == "" {
			delete(e.Record.Claims, key)
		}
	}
	// None is ever removed: a rollback may restore one.
	e.Record.Settings[f.Plan] = append(e.Record.Settings[f.Plan], f.unnoted(e.Record)...)
	return steps.Outcome{}, e.Record.Save(ctx, h, e.Facts)
}

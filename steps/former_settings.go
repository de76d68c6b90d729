package steps

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

var formerSettingsKind = Kind{Name: "former_settings", Place: OnHost, Doc: "settings that an earlier apply of the plan made and that it names no more are as they were before; those that it makes now are noted",
	New: func() any { return &FormerSettings{} }}

// FormerSettings puts settings of the machine back that the plan names no more. It comes
// before those that the plan has, which may be in the way of each other: of ports that
// overlap, one range can be reserved.
//
// What another plan has noted on the machine stays. Where a trial is open nothing is kept
// of what is put back: the old version, which it would be for, has its own settings in its
// services.
type FormerSettings struct {
	Plan string   `json:"plan" doc:"name of the plan's cluster block"`
	Keys []string `json:"keys,omitempty" doc:"what the plan's settings make, as the record names it"`
}

// former are the claims of settings that are to be put back, the last one first.
func (f *FormerSettings) former(r *Record) []string {
	var out []string
	for _, key := range r.Settings[f.Plan] {
		others := func(plan string) bool { return plan != f.Plan && slices.Contains(r.Settings[plan], key) }
		if !slices.Contains(f.Keys, key) && r.owns(key) && !slices.ContainsFunc(slices.Collect(maps.Keys(r.Settings)), others) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(r.Owned[b].Seq, r.Owned[a].Seq) })
	return out
}

// unnoted counts the settings that the record does not have as the plan's.
func (f *FormerSettings) unnoted(r *Record) (keys []string) {
	for _, key := range f.Keys {
		if !slices.Contains(r.Settings[f.Plan], key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (f *FormerSettings) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	var c Change
	for _, key := range f.former(e.Record) {
		u, err := undoOf(key, e.Record.Owned[key])
		if err != nil {
			return Change{}, err
		}
		_, left, err := u.look(ctx, r, e)
		if err != nil {
			return Change{}, err
		}
		if left == "" {
			c.Action = ActionUpdate
			c.Diffs = append(c.Diffs, Diff{Name: strings.Replace(key, ":", " ", 1), Have: "of the plan", Want: "as it was before"})
		}
	}
	if n := len(f.unnoted(e.Record)); n > 0 {
		c.Action = ActionUpdate
		c.Diffs = append(c.Diffs, Diff{Name: "settings", Want: plural(n, "1 setting", fmt.Sprintf("%d settings", n)) + " noted as the plan's"})
	}
	return c, nil
}

func (f *FormerSettings) Apply(ctx context.Context, h host.Host, e *Env, _ Change) (Outcome, error) {
	for _, key := range f.former(e.Record) {
		u, err := undoOf(key, e.Record.Owned[key])
		if err != nil {
			return Outcome{}, err
		}
		c, left, err := u.look(ctx, h, e)
		if err == nil && !c.NoOp() {
			err = u.do(ctx, h, e)
		}
		if err != nil {
			return Outcome{}, err
		}
		if left == "" {
			delete(e.Record.Owned, key)
		}
	}
	if e.Record.Settings == nil {
		e.Record.Settings = map[string][]string{}
	}
	// They are never taken off: a run that is taken back may bring one back.
	e.Record.Settings[f.Plan] = append(e.Record.Settings[f.Plan], f.unnoted(e.Record)...)
	return Outcome{}, e.Record.Save(ctx, h, e.Facts)
}

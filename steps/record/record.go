// Package record is nodejoin's small memory on a machine: what it made or altered there
// (claims), what it must restore on leave, and from what the services were last started.
// Observation always wins over it.
package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// New is a claim that is about to be made.
type New struct {
	Key Key
	// Previous is the earlier state, nil if the thing did not exist.
	Previous any
	Detail   string
	Plan     string // that has the step; "" = none
	Step     string // that is about to make it; "" = the one that claims
}

// Path is where the record of a machine lies.
func Path(f host.Facts) string { return host.Join(f.OS, f.DataDir, "record.json") }

// Load reads the record. One that others could have written is not read: it is host.ErrForeign. A machine without one
// gives an empty record. One that cannot be parsed counts as empty and is replaced by the next save. A record of a
// newer layout is an error, one of an older layout is converted.
func Load(ctx context.Context, r host.Reader, f host.Facts) (*Record, error) {
	rec := &Record{}
	for _, path := range []string{f.DataDir, Path(f)} {
		if err := host.Own(ctx, r, path); err != nil {
			return nil, err
		}
	}
	rc, err := r.Open(ctx, Path(f))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		defer rc.Close()
		b, err := io.ReadAll(io.LimitReader(rc, 64<<20))
		if err != nil {
			return nil, err
		}
		if rec, err = parse(b); err != nil {
			return nil, fmt.Errorf("%s: %w", Path(f), err)
		}
	}
	rec.fill()
	return rec, nil
}

func parse(b []byte) (*Record, error) {
	var layout struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(b, &layout) != nil {
		return &Record{}, nil //nolint:nilerr // a record that cannot be parsed counts as empty
	}
	rec := &Record{}
	var err error
	switch {
	case layout.Version > Version:
		return nil, fmt.Errorf("a newer nodejoin wrote it (record version %d, this one reads up to %d)",
			layout.Version, Version)
	case layout.Version < 2:
		rec, err = parseVersion1(b)
	default:
		err = json.Unmarshal(b, rec)
	}
	if err != nil {
		return &Record{}, nil //nolint:nilerr // likewise
	}
	return rec, nil
}

// fill makes the maps that are nil.
func (r *Record) fill() {
	r.Version = Version
	fill(&r.Claims)
	fill(&r.Fingerprints)
	fill(&r.Starts)
	fill(&r.Archives)
	fill(&r.Digests)
	fill(&r.Stopped)
	fill(&r.Gates)
	r.attribute()
	if s := r.Snapshot; s != nil {
		fill(&s.Items)
		fill(&s.Archives)
	}
}

// attribute moves what Settings says into the claims.
func (r *Record) attribute() {
	for _, plan := range slices.Sorted(maps.Keys(r.Settings)) {
		for _, key := range r.Settings[plan] {
			if c, ok := r.Claims[key]; ok {
				r.Claims[key] = c.With(plan)
			}
		}
	}
	r.Settings = nil
}

// Old reports whether nodejoin 0.1 made the claim, which did not note the plan. What finishes
// a plan after a reboot is not a plan's.
func (c Claim) Old() bool { return len(c.Plans) == 0 && !strings.HasPrefix(c.Step, "resume_") }

// With is the claim with the plan among its plans.
func (c Claim) With(plan string) Claim {
	if plan != "" && !slices.Contains(c.Plans, plan) {
		c.Plans = append(slices.Clone(c.Plans), plan)
	}
	return c
}

// Renamed is the claim with the plan in place of its former names.
func (c Claim) Renamed(former []string, plan string) Claim {
	if !slices.ContainsFunc(c.Plans, func(p string) bool { return slices.Contains(former, p) }) {
		return c
	}
	c.Plans = slices.DeleteFunc(slices.Clone(c.Plans), func(p string) bool { return slices.Contains(former, p) })
	return c.With(plan)
}

func fill[K comparable, V any](m *map[K]V) {
	if *m == nil {
		*m = map[K]V{}
	}
}

// Save writes the record.
func (r *Record) Save(ctx context.Context, h host.Host, f host.Facts) error {
	out := *r
	if !r.Snapshot.Worth() {
		out.Snapshot = nil
	}
	b, err := json.Marshal(&out)
	if err != nil {
		return err
	}
	return h.WriteFile(ctx, Path(f), bytes.NewReader(b), host.WriteOptions{Access: host.AccessPrivate})
}

// Secret reports whether the file holds a sensitive content that nodejoin wrote.
func (r *Record) Secret(os, path string) bool {
	return slices.Contains(r.Secrets, host.PathKey(os, path))
}

// SetSecret notes whether the file holds a sensitive content. It reports whether the record, which is not saved,
// has changed.
func (r *Record) SetSecret(os, path string, secret bool) (changed bool) {
	if secret == r.Secret(os, path) {
		return false
	}
	key := host.PathKey(os, path)
	if secret {
		r.Secrets = append(r.Secrets, key)
	} else {
		r.Secrets = slices.DeleteFunc(r.Secrets, func(s string) bool { return s == key })
	}
	return true
}

// Lookup finds a claim. There is one for whatever nodejoin made (Existed is false) or
// altered, also once that is Undone.
func (r *Record) Lookup(key Key) (c Claim, ok bool) {
	c, ok = r.Claims[key]
	return c, ok
}

// Active are the keys of the claims that have not been undone, in the order of the claims.
func (r *Record) Active() (keys []Key) {
	for key, c := range r.Claims {
		if !c.Undone {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return compare(r.Claims[a].Seq, a, r.Claims[b].Seq, b) })
	return keys
}

// Claim notes, before the changes themselves, that things are about to be made or
// altered by nodejoin. Only the first claim of a key holds the earlier state. The record
// is saved where it changes, and in any case with save.
func (r *Record) Claim(ctx context.Context, h host.Host, f host.Facts, step string, save bool, claims ...New) error {
	before := maps.Clone(r.Claims)
	next := 1
	for _, c := range r.Claims {
		next = max(next, c.Seq+1)
	}
	changed := save
	for _, n := range claims {
		if have, ok := r.Lookup(n.Key); ok && !have.Undone {
			// Its state is about to change.
			c := have.With(n.Plan)
			c.State, c.Removing = "", false
			r.Claims[n.Key] = c
			changed = changed || have.State != "" || have.Removing || len(c.Plans) > len(have.Plans)
			continue
		}
		c := Claim{Step: cmp.Or(n.Step, step), Seq: next, Detail: n.Detail}.With(n.Plan)
		if n.Previous != nil {
			b, err := json.Marshal(n.Previous)
			if err != nil {
				return err
			}
			c.Existed, c.Previous = true, b
		}
		r.Claims[n.Key], changed = c, true
		next++
	}
	if !changed {
		return nil
	}
	if err := r.Save(ctx, h, f); err != nil {
		r.Claims = before
		return err
	}
	return nil
}

// SetUndone notes that a claim has been undone; the record is not saved.
func (r *Record) SetUndone(key Key) {
	if c, ok := r.Lookup(key); ok {
		c.Undone, c.Removing = true, false
		r.Claims[key] = c
	}
}

// Own reports whether key is nodejoin's own folder or one above it: those go last, with
// the record itself.
func Own(f host.Facts, key Key) bool {
	return key.Prefix == Directory && host.Within(f.OS, key.Name, f.DataDir)
}

// Empty reports whether the record holds nothing that a leave would undo besides
// nodejoin's own folder.
func (r *Record) Empty(f host.Facts) bool {
	return !slices.ContainsFunc(r.Active(), func(key Key) bool { return !Own(f, key) })
}

// Previous is the earlier state of a claim; the zero value where the thing was not there.
func Previous[T any](c Claim) (v T, err error) {
	if c.Existed {
		if err = json.Unmarshal(c.Previous, &v); err != nil {
			err = fmt.Errorf("the earlier state in the record: %w", err)
		}
	}
	return v, err
}

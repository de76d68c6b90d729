// Package record is nodejoin's small memory on a machine: what it made or altered there
// (claims), what it must restore on leave, and from what the services were last started.
// Observation always wins over it.
package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// Record is DataDir/record.json, written atomically.
type Record struct {
	Version      int                 `json:"version"`                // the layout, see Version
	Claims       map[Key]Claim       `json:"claims,omitempty"`       // "file:C:\k\kubelet.exe"
	Fingerprints map[string]string   `json:"fingerprints,omitempty"` // service -> fingerprint at its last start
	Starts       map[string]Start    `json:"starts,omitempty"`       // service -> its last start by nodejoin
	Archives     map[string]Unpacked `json:"archives,omitempty"`     // step id -> what was unpacked
	Digests      map[string]Stamp    `json:"digests,omitempty"`      // path key -> digest of that very file

	// Stopped are the running services that were stopped because they depend on the
	// one that names the entry, in that order; its service step starts them again.
	Stopped map[string][]string `json:"stopped,omitempty"`

	// Gates are the gates that a run has seen open, by step id.
	Gates map[string]Gate `json:"open_gates,omitempty"`

	// Settings is how records of nodejoin 0.1 hold what Claim.Plans says; it is only read.
	Settings map[string][]Key `json:"settings,omitempty"`

	// Secrets are the path keys of files that nodejoin wrote with a sensitive content.
	Secrets []string `json:"secrets,omitempty"`

	// Snapshot is open while a change of the machine may be rolled back; nil = none.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
}

// Version is the layout that this nodejoin writes. An older one is converted on reading.
const Version = 2

// Claim is a thing that nodejoin made or altered.
type Claim struct {
	Step string `json:"step"`
	// Seq counts the claims of a record, from 1: leave goes backwards.
	Seq int `json:"seq,omitempty"`
	// Existed: it was there before; Previous is its earlier state.
	Existed  bool            `json:"existed,omitempty"`
	Previous json.RawMessage `json:"previous,omitempty"`
	// Detail is what else is needed to undo it; its meaning is the prefix's.
	Detail string `json:"detail,omitempty"`
	// Undone: it has been undone, and no apply has claimed it since.
	Undone bool `json:"undone,omitempty"`
	// Plans are the plans with a step that makes it. A plan that no longer has one gives it
	// up; without any it is a claim of nodejoin 0.1.
	Plans []string `json:"plans,omitempty"`
	// State is the digest of the state in which nodejoin left it; "" = not known.
	State string `json:"state,omitempty"`
	// Keep: it stays on the machine when the plan no longer names it.
	Keep bool `json:"keep,omitempty"`
	// UntilLeave: it stays until the machine leaves.
	UntilLeave bool `json:"until_leave,omitempty"`
	// Removing: a run removes it because the plan no longer names it, and has not ended.
	Removing bool `json:"removing,omitempty"`
}

// New is a claim that is about to be made.
type New struct {
	Key Key
	// Previous is the earlier state, nil if the thing did not exist.
	Previous any
	Detail   string
	Plan     string // that has the step; "" = none
}

// Start is the last start of a service by nodejoin.
type Start struct {
	PID   int      `json:"pid,omitempty"`
	Watch []string `json:"watch,omitempty"` // files whose change restarts it
	// On is the digest of the values whose change restarts it.
	On string `json:"on,omitempty"`
}

// Gate is a gate that a run has seen open.
type Gate struct {
	Args string `json:"args"` // digest of its arguments
	// PID of its service, as nodejoin had started it; 0 = not known. After another start the
	// gate has yet to open.
	PID int `json:"pid,omitempty"`
}

// Unpacked is the result of an archive step, or of a binary step whose source gives
// no sha256.
type Unpacked struct {
	// Digest of the artifact, "sha256:...", and for an archive what was taken from it
	// to where.
	Digest string            `json:"digest"`
	Files  map[string]string `json:"files"` // path -> sha256
	// Version is the one that a run has observed running; "" = none has yet.
	Version string `json:"version,omitempty"`
}

// Stamp ties a digest to one version of a file.
type Stamp struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	ID      string    `json:"id,omitempty"`
	SHA256  string    `json:"sha256"`
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
// a plan after a reboot is no plan's.
func (c Claim) Old() bool { return len(c.Plans) == 0 && !strings.HasPrefix(c.Step, "resume_") }

// With is the claim with the plan among its plans.
func (c Claim) With(plan string) Claim {
	if plan != "" && !slices.Contains(c.Plans, plan) {
		c.Plans = append(slices.Clone(c.Plans), plan)
	}
	return c
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
	b, err := json.MarshalIndent(&out, "", " ")
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
		c := Claim{Step: step, Seq: next, Detail: n.Detail}.With(n.Plan)
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

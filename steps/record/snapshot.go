package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// Snapshot is what a machine was before a change that may be rolled back. What is altered
// while it is open is noted as it was, until the run has verified everything or rolls it
// back. It is in the record, so that the run that opened it need not be the one that
// closes it.
type Snapshot struct {
	// Node is what the Node was before the first change, as the run gave it.
	Node  json.RawMessage `json:"node,omitempty"`
	Begun time.Time       `json:"begun"`
	// Items is what was altered, as it was before.
	Items map[Key]Item `json:"items,omitempty"`
	// Archives are the record's entries before they were altered; nil = there was none.
	Archives map[string]*Unpacked `json:"archives,omitempty"`
	// Leftover are digests of files that a closed snapshot needed and that still have to go.
	Leftover []string `json:"leftover,omitempty"`
	// Closed: nothing can be rolled back any more; only the files of the snapshot are left.
	Closed bool `json:"closed,omitempty"`
	// RolledBack is set once the machine is as it was before. It is noted with that, as the
	// answer may be lost, and stays until a run has observed that the machine works.
	RolledBack *Rollback `json:"rolled_back,omitempty"`
}

// Rollback is the result of a rollback.
type Rollback struct {
	Services []string `json:"services,omitempty"` // those that were started, in that order
	// Left names what could not be restored, each with why.
	Left []string `json:"left,omitempty"`
}

// Item is one altered thing as it was.
type Item struct {
	Claim // Seq counts within the snapshot
	// Claimed: nodejoin had claimed it already, and still does after a rollback.
	Claimed bool `json:"claimed,omitempty"`
	// Blob is the digest of the earlier state in nodejoin's folder, where it is not in Previous.
	Blob string `json:"blob,omitempty"`
	// Stopped: a service that ran has been stopped since.
	Stopped bool `json:"stopped,omitempty"`
}

// Begin opens a snapshot, unless one is open. It is saved with its first item.
func (r *Record) Begin(node json.RawMessage, now time.Time) {
	if r.Snapshot.Open() {
		return
	}
	var leftover []string // of one whose end was interrupted: its files go with those of this one
	if s := r.Snapshot; s != nil {
		leftover = s.blobs()
	}
	r.Snapshot = &Snapshot{Node: node, Begun: now.UTC().Truncate(time.Second),
		Items: map[Key]Item{}, Archives: map[string]*Unpacked{}, Leftover: leftover}
}

// Open reports whether changes are noted in the snapshot; s may be nil.
func (s *Snapshot) Open() bool { return s != nil && !s.Closed }

// Changed reports whether an open snapshot holds a change of the machine; s may be nil.
func (s *Snapshot) Changed() bool { return s.Open() && len(s.Items)+len(s.Archives) > 0 }

// Worth reports whether a save of the record writes the snapshot; s may be nil.
func (s *Snapshot) Worth() bool { return s != nil && len(s.Items)+len(s.Archives)+len(s.Leftover) > 0 }

// Wants reports whether the snapshot is open and does not hold key yet; s may be nil.
func (s *Snapshot) Wants(key Key) bool {
	if !s.Open() {
		return false
	}
	_, ok := s.Items[key]
	return !ok
}

// Add notes one thing as it was.
func (s *Snapshot) Add(key Key, item Item) {
	item.Seq = len(s.Items) + 1
	s.Items[key] = item
}

// Keys are those of the items, the last one first.
func (s *Snapshot) Keys() []Key {
	return slices.SortedFunc(maps.Keys(s.Items), func(a, b Key) int {
		return compare(s.Items[b].Seq, a, s.Items[a].Seq, b)
	})
}

// blobs are the digests of the files that the snapshot needs, each once, in order.
func (s *Snapshot) blobs() []string {
	out := slices.Clone(s.Leftover)
	for key, item := range s.Items {
		out = append(out, item.Blob, item.file(key))
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(d string) bool { return d == "" })
}

// Close ends the snapshot, if there is one, and removes the files that only it needed.
// Nothing can be rolled back any more.
func (r *Record) Close(ctx context.Context, h host.Host, f host.Facts) error {
	s := r.Snapshot
	if !s.Worth() {
		r.Snapshot = nil
		return nil
	}
	s.Closed = true
	if err := r.Save(ctx, h, f); err != nil {
		return err
	}
	needed := map[string]bool{}
	for key, c := range r.Claims {
		needed[c.file(key)] = true
	}
	for _, d := range s.blobs() {
		if needed[d] {
			continue
		}
		if err := h.Remove(ctx, BlobPath(f, d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	r.Snapshot = nil
	return r.Save(ctx, h, f)
}

// compare orders keys by their place in a sequence.
func compare(p int, a Key, q int, b Key) int {
	return cmp.Or(cmp.Compare(p, q), cmp.Compare(a.Prefix, b.Prefix), strings.Compare(a.Name, b.Name))
}

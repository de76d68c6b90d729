package record

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"nodejoin/steps/host"
)

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

package sandbox

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
)

// table is a part of a cluster that is stored by name and may grow large. It tracks the changes of the running
// call, so that only they have to be written, or discarded if the call fails.
type table[V any] struct {
	kept map[string]V
	next map[string]*V // changes of the running call; nil removes
}

// journaled is a table of any type.
type journaled interface {
	changed() any // the tracked changes by name; nil if there are none
	keep()
	discard()
}

// get returns the entry of that name. It must not be changed.
func (t *table[V]) get(name string) (v V, ok bool) {
	if next, noted := t.next[name]; noted {
		if next == nil {
			return v, false
		}
		return *next, true
	}
	v, ok = t.kept[name]
	return v, ok
}

// edit returns a copy of the entry of that name, to be changed and passed to set.
func (t *table[V]) edit(name string) (V, bool) {
	v, ok := t.get(name)
	if !ok {
		return v, false
	}
	return copied(v), true
}

func (t *table[V]) set(name string, v V) {
	if have, ok := t.get(name); !ok || !same(have, v) {
		t.note(name, &v)
	}
}

func (t *table[V]) remove(name string) {
	if _, ok := t.get(name); ok {
		t.note(name, nil)
	}
}

func (t *table[V]) note(name string, v *V) {
	if t.next == nil {
		t.next = map[string]*V{}
	}
	t.next[name] = v
}

// all iterates over the entries in the order of their names. They must not be changed in place, but may be set
// and removed.
func (t *table[V]) all() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range t.names() {
			if v, ok := t.get(name); ok && !yield(name, v) {
				return
			}
		}
	}
}

func (t *table[V]) names() []string {
	names := slices.Collect(maps.Keys(t.kept))
	for name := range t.next {
		if _, ok := t.kept[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// nextNumber returns a name that sorts after all others, in a table whose names are numbers.
func (t *table[V]) nextNumber() string {
	last := 0
	if names := t.names(); len(names) > 0 {
		last, _ = strconv.Atoi(names[len(names)-1])
	}
	return fmt.Sprintf("%08d", last+1)
}

func (t *table[V]) changed() any {
	if len(t.next) == 0 {
		return nil
	}
	return t.next
}

func (t *table[V]) keep() {
	if t.kept == nil {
		t.kept = map[string]V{}
	}
	for name, v := range t.next {
		if v == nil {
			delete(t.kept, name)
		} else {
			t.kept[name] = *v
		}
	}
	t.next = nil
}

func (t *table[V]) discard() { t.next = nil }

// IsZero reports whether the table has no entry.
func (t *table[V]) IsZero() bool { return len(t.kept) == 0 && len(t.next) == 0 }

// MarshalJSON encodes the stored entries.
func (t *table[V]) MarshalJSON() ([]byte, error) {
	if t.kept == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(t.kept)
}

// UnmarshalJSON adds to the stored entries; null removes one.
func (t *table[V]) UnmarshalJSON(raw []byte) error {
	var entries map[string]*V
	if err := json.Unmarshal(raw, &entries); err != nil {
		return err
	}
	for name, v := range entries {
		t.note(name, v)
	}
	t.keep()
	return nil
}

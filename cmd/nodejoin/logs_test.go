package main

import (
	"slices"
	"testing"
)

// A bundle has a limit, and names what it leaves out; smaller entries still go in.
func TestBundleIsBounded(t *testing.T) {
	b := &bundle{size: maxBundle - 10}
	b.add("a", "eleven bytes")
	b.add("b", "ten bytes.")
	b.add("c", "x")
	if len(b.entries) != 1 || b.entries[0].name != "b" || b.size != maxBundle {
		t.Errorf("entries %v, size %d", b.entries, b.size)
	}
	if want := []string{"a: left out: the limit of 64 MiB is reached",
		"c: left out: the limit of 64 MiB is reached"}; !slices.Equal(b.lacks, want) {
		t.Errorf("missing: %q", b.lacks)
	}
}

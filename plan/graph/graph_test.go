package graph_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nodejoin/plan/graph"
)

func build(t *testing.T, nodes string, edges ...string) *graph.Graph[string] {
	t.Helper()
	var g graph.Graph[string]
	for _, n := range nodes {
		g.Add(string(n))
	}
	for _, e := range edges {
		if err := g.Edge(e[:1], e[1:]); err != nil {
			t.Fatal(err)
		}
	}
	return &g
}

func TestOrder(t *testing.T) {
	for _, tc := range []struct {
		name, nodes string
		edges       []string
		want        string
	}{
		{"empty", "", nil, ""},
		{"no edges keep the order of insertion", "cab", nil, "cab"},
		{"an edge moves as little as possible", "abc", []string{"ca"}, "bca"},
		{"an edge twice", "ab", []string{"ba", "ba"}, "ba"},
		{"diamond", "dcba", []string{"ab", "ac", "bd", "cd"}, "acbd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			have, err := build(t, tc.nodes, tc.edges...).Order()
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, n := range tc.want {
				want = append(want, string(n))
			}
			if d := cmp.Diff(want, have, cmp.Comparer(slices.Equal[[]string])); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCycle(t *testing.T) {
	for _, tc := range []struct {
		name, nodes string
		edges       []string
		want        string
	}{
		{"self", "ab", []string{"bb"}, "cycle: b -> b"},
		{"pair", "ab", []string{"ab", "ba"}, "cycle: a -> b -> a"},
		{"with a tail", "xabcy", []string{"xa", "ab", "bc", "ca", "cy"}, "cycle: a -> b -> c -> a"},
		{"tail first", "yabc", []string{"ab", "bc", "ca", "cy"}, "cycle: a -> b -> c -> a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := build(t, tc.nodes, tc.edges...).Order()
			var cycle *graph.CycleError[string]
			if !errors.As(err, &cycle) || err.Error() != tc.want {
				t.Errorf("have %v, want %s", err, tc.want)
			}
		})
	}
}

func TestEdgeOfUnknown(t *testing.T) {
	g := build(t, "a")
	if g.Edge("a", "b") == nil || g.Edge("b", "a") == nil {
		t.Error("an edge of an unknown node was accepted")
	}
	if g.Add("a") || !g.Has("a") || g.Has("b") {
		t.Error("Add and Has disagree")
	}
}

// For any edges there is either an order in which every edge points forward, or a
// cycle in which every step is an edge.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		var g graph.Graph[int]
		for i := range n {
			g.Add(i)
		}
		edges := map[[2]int]bool{}
		for range rapid.IntRange(0, 24).Draw(t, "edges") {
			e := [2]int{rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b")}
			edges[e] = true
			if err := g.Edge(e[0], e[1]); err != nil {
				t.Fatal(err)
			}
		}
		order, err := g.Order()
		var cycle *graph.CycleError[int]
		switch {
		case errors.As(err, &cycle):
			if len(cycle.Path) < 2 || cycle.Path[0] != cycle.Path[len(cycle.Path)-1] {
				t.Fatalf("no cycle: %v", cycle.Path)
			}
			for i := range len(cycle.Path) - 1 {
				if !edges[[2]int{cycle.Path[i], cycle.Path[i+1]}] {
					t.Fatalf("%v: step %d is not an edge", cycle.Path, i)
				}
			}
		case err != nil:
			t.Fatal(err)
		default:
			if len(order) != n {
				t.Fatalf("order %v of %d nodes", order, n)
			}
			for e := range edges {
				if slices.Index(order, e[0]) >= slices.Index(order, e[1]) {
					t.Fatalf("edge %v does not point forward in %v", e, order)
				}
			}
		}
	})
}

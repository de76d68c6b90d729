// Package graph is a directed acyclic graph over comparable keys. Its orders are deterministic:
// equal input in equal order gives equal output.
package graph

import (
	"container/heap"
	"fmt"
	"strings"
)

// Graph holds nodes in insertion order. The zero Graph is ready to use. It is not safe for concurrent use.
type Graph[K comparable] struct {
	index map[K]int
	keys  []K
	needs [][]int // needs[i]: what comes before i
	edges map[[2]int]bool
}

// Add inserts a node and reports whether it is new.
func (g *Graph[K]) Add(k K) bool {
	if _, ok := g.index[k]; ok {
		return false
	}
	if g.index == nil {
		g.index = map[K]int{}
		g.edges = map[[2]int]bool{}
	}
	g.index[k] = len(g.keys)
	g.keys = append(g.keys, k)
	g.needs = append(g.needs, nil)
	return true
}

// Has reports whether k is a node.
func (g *Graph[K]) Has(k K) bool {
	_, ok := g.index[k]
	return ok
}

// Edge states that before precedes after. Both must be nodes; an unknown one is an error. A duplicate edge is
// kept once.
func (g *Graph[K]) Edge(before, after K) error {
	b, ok := g.index[before]
	if !ok {
		return fmt.Errorf("graph: no node %v", before)
	}
	a, ok := g.index[after]
	if !ok {
		return fmt.Errorf("graph: no node %v", after)
	}
	if e := [2]int{b, a}; !g.edges[e] {
		g.edges[e] = true
		g.needs[a] = append(g.needs[a], b)
	}
	return nil
}

// Order returns all nodes so that each comes after what it needs; of several candidates, the one inserted
// first. A cycle is a *CycleError[K].
func (g *Graph[K]) Order() ([]K, error) {
	wait := make([]int, len(g.keys))
	then := make([][]int, len(g.keys))
	ready := &intHeap{}
	for i, needs := range g.needs {
		wait[i] = len(needs)
		for _, n := range needs {
			then[n] = append(then[n], i)
		}
		if len(needs) == 0 {
			*ready = append(*ready, i)
		}
	}
	heap.Init(ready)
	out := make([]K, 0, len(g.keys))
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		out = append(out, g.keys[i])
		for _, j := range then[i] {
			if wait[j]--; wait[j] == 0 {
				heap.Push(ready, j)
			}
		}
	}
	if len(out) < len(g.keys) {
		return nil, &CycleError[K]{Path: g.cycle(wait)}
	}
	return out, nil
}

// cycle finds one cycle among the waiting nodes, starting at the one of its nodes that was inserted first.
func (g *Graph[K]) cycle(wait []int) []K {
	start := 0
	for wait[start] == 0 {
		start++
	}
	// Every waiting node needs another waiting one: following those must come back.
	seen := map[int]int{}
	var walk []int
	for i := start; ; {
		if at, ok := seen[i]; ok {
			walk = walk[at:]
			break
		}
		seen[i] = len(walk)
		walk = append(walk, i)
		for _, n := range g.needs[i] {
			if wait[n] > 0 {
				i = n
				break
			}
		}
	}
	first := 0
	for i, n := range walk {
		if n < walk[first] {
			first = i
		}
	}
	// walk follows the needs of a node; the returned path is reversed.
	path := make([]K, 0, len(walk)+1)
	for i := range walk {
		path = append(path, g.keys[walk[((first-i)%len(walk)+len(walk))%len(walk)]])
	}
	return append(path, path[0])
}

// CycleError is a cycle: each of Path comes before the next, and the last is the first.
type CycleError[K comparable] struct{ Path []K }

func (e *CycleError[K]) Error() string {
	parts := make([]string, len(e.Path))
	for i, k := range e.Path {
		parts[i] = fmt.Sprint(k)
	}
	return "cycle: " + strings.Join(parts, " -> ")
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

package selection

import (
	"fmt"
	"slices"
	"testing"

	"nodejoin/plan"
)

func fleet(n int) *plan.Compiled {
	c := &plan.Compiled{}
	for i := range n {
		c.Nodes = append(c.Nodes, plan.Node{Name: fmt.Sprintf("win-%04d", i)})
	}
	return c
}

// TestShards: each node is in one shard, and shards are about the same size. One more shard takes nodes from the
// others and moves none between them.
func TestShards(t *testing.T) {
	const nodes, count = 1000, 8
	c := fleet(nodes)
	lists, err := Shards(c, count)
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for i, names := range lists {
		all += len(names)
		if len(names) < nodes/count*3/4 || len(names) > nodes/count*5/4 {
			t.Errorf("shard %d has %d of %d nodes", i+1, len(names), nodes)
		}
		part := *c
		Shard{i + 1, count}.Keep(&part)
		var kept []string
		for _, n := range part.Nodes {
			kept = append(kept, n.Name)
		}
		if !slices.Equal(kept, names) {
			t.Errorf("shard %d selects other nodes than it prints", i+1)
		}
	}
	if all != nodes || len(c.Nodes) != nodes {
		t.Errorf("%d of %d nodes are in a shard", all, nodes)
	}
	more, err := Shards(c, count+1)
	if err != nil {
		t.Fatal(err)
	}
	for i, names := range more[:count] {
		for _, n := range names {
			if !slices.Contains(lists[i], n) {
				t.Errorf("%s moved to shard %d, which is not the new one", n, i+1)
			}
		}
	}
}

// TestShardStays: a node is in the same shard in every version of nodejoin, because the shards of one run may use
// different versions.
func TestShardStays(t *testing.T) {
	got := make([]int, 0, 6)
	for _, name := range []string{"win-1", "win-2", "win-3", "a", "node.example.com", "k8s-worker-17"} {
		got = append(got, shardOf(name, 5))
	}
	if want := []int{1, 5, 1, 4, 2, 5}; !slices.Equal(got, want) {
		t.Errorf("shards %v, want %v", got, want)
	}
}

func TestShardFlag(t *testing.T) {
	for _, text := range []string{"", "1", "0/4", "5/4", "1/0", "-1/4", "1/1001", "a/b", "1/4/4", "1/"} {
		var s Shard
		if err := s.Set(text); err == nil {
			t.Errorf("%q is accepted as %s", text, s.String())
		}
	}
	var s Shard
	if err := s.Set("4/4"); err != nil || s != (Shard{4, 4}) || s.String() != "4/4" {
		t.Errorf("4/4 is read as %v, %v", s, err)
	}
	if _, err := Shards(fleet(1), 0); err == nil {
		t.Error("0 shards are accepted")
	}
}

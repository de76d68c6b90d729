package selection

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nodejoin/plan"
)

// MostShards bounds the shards of a plan. It is a bound of sense, not of the mechanism.
const MostShards = 1000

// Shard is one of the parts that the nodes of a plan are divided into; the zero Shard is the whole plan. It is a flag
// that is written I/N, from 1/N to N/N, as the variables CI_NODE_INDEX and CI_NODE_TOTAL of GitLab count.
type Shard struct{ Index, Count int }

func (s *Shard) String() string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

// Type is what help calls the value.
func (s *Shard) Type() string { return "I/N" }

// Set reads I/N.
func (s *Shard) Set(text string) error {
	index, count, _ := strings.Cut(text, "/")
	i, err := strconv.Atoi(index)
	n, err2 := strconv.Atoi(count)
	if err != nil || err2 != nil || n < 1 || n > MostShards || i < 1 || i > n {
		return fmt.Errorf("it must be I/N, such as 1/4 to 4/4, with N at most %d", MostShards)
	}
	*s = Shard{i, n}
	return nil
}

// Has reports whether a node is in the shard. That depends on nothing but its name and the number of shards.
func (s Shard) Has(node string) bool { return s.Count == 0 || shardOf(node, s.Count) == s.Index }

// Keep drops the nodes of c that are not in the shard.
func (s Shard) Keep(c *plan.Compiled) {
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n plan.Node) bool { return !s.Has(n.Name) })
}

// shardOf is the shard of a node, from 1 to count: the one with the highest weight (rendezvous hashing, Thaler and
// Ravishankar 1998). One shard more takes its part from all the others; no other node moves.
func shardOf(node string, count int) int {
	best, most := 0, uint64(0)
	for i := 1; i <= count; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", i, node))
		if w := binary.BigEndian.Uint64(sum[:]); best == 0 || w > most {
			best, most = i, w
		}
	}
	return best
}

// Shards are the names of c's nodes by shard: the first list is that of shard 1.
func Shards(c *plan.Compiled, count int) ([][]string, error) {
	if count < 1 || count > MostShards {
		return nil, errors.New("the number of shards is from 1 to " + strconv.Itoa(MostShards))
	}
	out := make([][]string, count)
	for _, n := range c.Nodes {
		i := shardOf(n.Name, count) - 1
		out[i] = append(out[i], n.Name)
	}
	return out, nil
}

package plan

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
)

// movedBlock is a moved block.
type movedBlock struct {
	*eval.Section
	from, to string
	at       hcl.Range
}

// moved reads the moved blocks of a plan: the names of its nodes by names that they had.
func (c *compiler) moved() map[string]string {
	list := map[string]movedBlock{}
	for _, b := range c.Written["moved"] {
		s := c.Section(block.Root("moved"), b, c.Ctx)
		m := movedBlock{Section: s, from: s.Str("from"), to: s.Str("to"), at: b.DefRange}
		if len(c.Written["cluster"]) == 0 {
			c.Fail(b.DefRange, "block without effect", "A moved block is about a Node of a cluster, and the plan has no "+
				"cluster block. Add one, or remove this block.")
		}
		if m.from == "" || m.to == "" {
			continue // which was reported
		}
		if before, twice := list[m.from]; twice {
			s.Fail("from", "duplicate name", "There is another moved block from %q at %s. A Node has one new name; remove one "+
				"of them.", m.from, c.Files.Place(before.at))
			continue
		}
		list[m.from] = m
	}
	// With errors or unknown values, a node that seems to be missing may be one that was not read.
	if len(list) == 0 || c.List.HasErrors() || len(c.Unvalued)+len(c.Unread) > 0 {
		return nil
	}
	names := []string{}
	for _, m := range c.Machines {
		names = append(names, m.Name)
	}
	out := map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(list)) {
		if to := c.movedTo(list, from, names); to != "" {
			out[from] = to
		}
	}
	return out
}

// movedTo follows moved blocks from a name to that of a node of the plan; "" = there is none, which is reported.
func (c *compiler) movedTo(list map[string]movedBlock, from string, nodes []string) string {
	m := list[from]
	if slices.Contains(nodes, from) {
		m.Fail("from", "the node is not moved", "The plan has a node %q, so its machine cannot be another node now. "+
			"Remove the moved block, or give that node another name.", from)
		return ""
	}
	last := m
	for range list {
		if slices.Contains(nodes, last.to) {
			return last.to
		}
		next, again := list[last.to]
		if !again {
			if last.from == from { // reported once, at the block that names it
				m.Fail("to", "unknown node", "The plan has no node %q.%s Write the name that the machine's Node has now; "+
					"if the machine is no longer a node, remove the moved block.", m.to, eval.DidYouMean(m.to, nodes))
			}
			return ""
		}
		last = next
	}
	m.Fail("to", "moved in a circle", "The moved blocks lead from %q back to itself, and to no node of the plan. Let "+
		"the last of them name a node.", from)
	return ""
}

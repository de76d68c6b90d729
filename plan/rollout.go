package plan

import (
	"strconv"
	"strings"

	"nodejoin/plan/block"
)

// rollout reads the rollout block of a plan with so many nodes.
func (c *compiler) rollout(nodes int) Rollout {
	out := Rollout{MaxUnavailable: 1, MaxFailures: 1}
	for _, b := range c.Written["rollout"] {
		s := c.Section(block.Root("rollout"), b, c.Ctx)
		if len(c.Written["cluster"]) == 0 {
			c.Fail(b.DefRange, "block without effect",
				"A rollout counts Nodes of a cluster, and the plan has no cluster block. Add one, or remove this block.")
		}
		out.MaxFailures = int(s.Int("max_failures", 1, 10000, 1))
		text := s.Str("max_unavailable")
		if text == "" {
			continue
		}
		share, percent := strings.CutSuffix(text, "%")
		n, err := strconv.Atoi(share)
		switch {
		case err != nil || n < 1 || percent && n > 100 || n > 10000:
			s.Fail("max_unavailable", "invalid number", "%q is not a number of Nodes. Write a whole number from 1 on, or a "+
				"share of the plan's nodes from \"1%%\" to \"100%%\".", text)
		case percent:
			out.MaxUnavailable = max(1, (nodes*n+99)/100)
		default:
			out.MaxUnavailable = n
		}
	}
	return out
}

package plan

import (
	"strconv"
	"strings"
	"time"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
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
		if text := s.Str("max_unavailable"); text != "" {
			out.MaxUnavailable = share(s, "max_unavailable", -1, text, nodes)
		}
		for i, text := range s.Strs("waves") {
			out.Sizes = append(out.Sizes, share(s, "waves", i, text, nodes))
		}
		out.Pause = s.Duration("pause", time.Second, 24*time.Hour, 0)
		if s.Has("waves") && len(out.Sizes) == 0 && s.OK {
			s.Fail("waves", "no waves", "A list of waves has at least one: write a number of Nodes or a share for each, or "+
				"leave it out.")
		}
		if s.Has("pause") && !s.Has("waves") {
			s.Fail("pause", "argument without effect", "A pause is between two waves, and this block has no waves. Add them, "+
				"such as waves = [1, \"10%%\", \"100%%\"], or remove this argument.")
		}
	}
	return out
}

// share reads a number of Nodes, or a share of the plan's. i is its place in a list; -1 = it is alone.
func share(s *eval.Section, name string, i int, text string, nodes int) int {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || percent && n > 100 || n > 10000 {
		at := s.At(name)
		if i >= 0 {
			at = s.AtIndex(name, i)
		}
		s.FailAt(at, "invalid number", "%q is not a number of Nodes. Write a whole number from 1 on, or a share of the "+
			"plan's nodes from \"1%%\" to \"100%%\".", text)
		return 1
	}
	if percent {
		return max(1, (nodes*n+99)/100)
	}
	return n
}

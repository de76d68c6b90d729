package collect

import (
	"strings"
	"testing"
)

// What is gathered on one machine has a bound, and what is left out for it is named.
func TestGatherIsBounded(t *testing.T) {
	g := &gatherer{}
	const most = gatherTotal / gatherTail
	for range most + 1 {
		g.add("logs/x", strings.Repeat("x", gatherTail), true, nil)
	}
	g.add("small", "", false, nil)
	for i, p := range g.parts {
		if out := strings.HasPrefix(p.Missing, "left out: the bound of "); out != (i == most) || out && p.Text != "" {
			t.Errorf("part %d: %d bytes, %q", i, len(p.Text), p.Missing)
		}
	}
}

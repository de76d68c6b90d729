package collect

import (
	"strings"
	"testing"
)

// What is collected from one machine is bounded; parts over the bound are named.
func TestGatherIsBounded(t *testing.T) {
	g := &collector{}
	const most = maxTotal / maxTail
	for range most + 1 {
		g.add("logs/x", strings.Repeat("x", maxTail), true, nil)
	}
	g.add("small", "", false, nil)
	for i, p := range g.parts {
		if out := strings.HasPrefix(p.Missing, "left out: the bound of "); out != (i == most) || out && p.Text != "" {
			t.Errorf("part %d: %d bytes, %q", i, len(p.Text), p.Missing)
		}
	}
}

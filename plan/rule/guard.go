package rule

import (
	"nodejoin/plan/block"
)

// guard reports arguments of a guard block that have no effect.
func guard(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["guard"]
	switch {
	case !ok || elsewhere(m):
		return
	case len(p.Written["cluster"]) == 0:
		p.FailOn(m.Name, b.At, "block without effect",
			"Node %q joins no cluster, so it has no service of nodejoin. Remove it.", m.Name)
		return
	}
	off, given := b.Args["enabled"]
	if !given || !off.Value.False() {
		return
	}
	for _, name := range []string{"interval", "metrics_port", "textfile"} {
		if g, ok := b.Args[name]; ok {
			p.FailOn(m.Name, g.At, "argument without effect",
				"On node %q the argument %q has no effect: the guard is not enabled. Remove one of the two.", m.Name, name)
		}
	}
}

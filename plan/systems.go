package plan

import (
	"nodejoin/plan/eval"
)

// systemNames are how people write them.
var systemNames = map[string]string{"windows": "Windows", "linux": "Linux"}

// systems reports a step, or an argument of it, that is for another operating system
// than its node runs.
func (c *compiler) systems(b *stepBlock, m *machine, s *eval.Section) {
	if m.OS == "" {
		return
	}
	if want := b.kind.OS; want != "" && want != m.OS {
		s.OK = false
		c.FailOn(m.Name, b.block.LabelRanges[0], "kind of another system", "There are steps of the kind %q on %s only, and node %q runs %s. Name the nodes in the argument \"on\".", b.kind.Name, systemNames[want], m.Name, systemNames[m.OS])
		return
	}
	for _, a := range b.kind.block.Attrs {
		if want := b.kind.args[a.Name].os; want != "" && want != m.OS && s.Has(a.Name) {
			s.OK = false
			c.FailOn(m.Name, s.Attrs[a.Name].NameRange, "argument without effect", "The argument %q is for %s, and node %q runs %s. Remove it, or name other nodes in the argument \"on\".", a.Name, systemNames[want], m.Name, systemNames[m.OS])
		}
	}
}

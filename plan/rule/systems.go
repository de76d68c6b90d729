package rule

import (
	"nodejoin/plan/block"
)

// systemNames are the names of operating systems for people.
var systemNames = map[string]string{"windows": "Windows", "linux": "Linux"}

// systemsOf reports a step, or an argument of it, that is for another operating system
// than its node runs.
func systemsOf(_ *block.Plan, m *block.Machine, a *block.Step) {
	if m.OS == "" {
		return
	}
	if want := a.Kind.OS; want != "" && want != m.OS {
		a.OK = false
		a.Scope.FailOn(m.Name, a.Block.LabelRanges[0], "kind of another system",
			"There are steps of the kind %q on %s only, and node %q runs %s. Name the nodes in the argument \"on\".",
			a.Kind.Name, systemNames[want], m.Name, systemNames[m.OS])
		return
	}
	for _, arg := range a.Kind.Block.Attrs {
		if want := a.Kind.Args[arg.Name].OS; want != "" && want != m.OS && a.Has(arg.Name) {
			a.OK = false
			a.Scope.FailOn(m.Name, a.Attrs[arg.Name].NameRange, "argument without effect",
				"The argument %q is for %s, and node %q runs %s. Remove it, or name other nodes in the argument \"on\".",
				arg.Name, systemNames[want], m.Name, systemNames[m.OS])
		}
	}
}

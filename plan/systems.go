package plan

import (
	"nodejoin/plan/eval"
)

// systemKinds are kinds of one operating system only.
var systemKinds = map[string]string{
	"registry": "windows", "firewall_rule": "windows", "hns_network": "windows", "hns_network_ready": "windows",
	"dynamic_ports": "windows", "reserved_ports": "windows",
	"sysctl": "linux", "kernel_module": "linux",
}

// systemArguments are arguments of kinds that say something on one operating system only.
var systemArguments = map[string]string{
	"preflight.min_build": "windows", "preflight.min_revisions": "windows", "preflight.bad_revisions": "windows",
	"preflight.hns_networks": "windows", "preflight.static_kept": "windows",
	"preflight.no_swap": "linux", "preflight.cgroup_v2": "linux", "preflight.programs": "linux",
	"env.file": "linux",
}

// systemNames are how people write them.
var systemNames = map[string]string{"windows": "Windows", "linux": "Linux"}

// systems reports a step, or an argument of it, that is for another operating system
// than its node runs.
func (c *compiler) systems(b *stepBlock, m *machine, s *eval.Section) {
	if m.OS == "" {
		return
	}
	if want := systemKinds[b.kind.Name]; want != "" && want != m.OS {
		s.OK = false
		c.FailOn(m.Name, b.block.LabelRanges[0], "kind of another system", "There are steps of the kind %q on %s only, and node %q runs %s. Name the nodes in the argument \"on\".", b.kind.Name, systemNames[want], m.Name, systemNames[m.OS])
		return
	}
	for _, a := range b.kind.block.Attrs {
		if want := systemArguments[b.kind.Name+"."+a.Name]; want != "" && want != m.OS && s.Has(a.Name) {
			s.OK = false
			c.FailOn(m.Name, s.Attrs[a.Name].NameRange, "argument without effect", "The argument %q is for %s, and node %q runs %s. Remove it, or name other nodes in the argument \"on\".", a.Name, systemNames[want], m.Name, systemNames[m.OS])
		}
	}
}

package rule

import (
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// netBIOSLength is that of the longest NetBIOS name (learn.microsoft.com, SetComputerNameExW).
const netBIOSLength = 15

// hostNames reports two machines with one name, and names that Windows shortens.
func hostNames(p *block.Plan) {
	first := map[string]string{} // name in lower case -> node
	for _, m := range p.Machines {
		g, ok := m.Said["host"].Args["hostname"]
		if !ok || reported(p, g.At) {
			continue
		}
		name := g.Value.AsString()
		key := strings.ToLower(name)
		if other, taken := first[key]; taken {
			p.Fail(g.At, "duplicate host name", "The machines of the nodes %q and %q would both be named %q, and each "+
				"needs a name of its own. Give it in each node, or with for_each as hostname = each.key.", other, m.Name, name)
			m.OK = false
			continue
		}
		first[key] = m.Name
		if m.OS == "windows" && len(name) > netBIOSLength {
			p.Warn(g.At, "long host name", "%q has %d characters, and the NetBIOS name of a Windows machine has %d: older "+
				"programs will know it as %s. Use a shorter one where that matters, especially if other names start the "+
				"same.", name,
				len(name), netBIOSLength, host.NetBIOSName(name))
		}
	}
}

// hostEffect reports arguments of the host block that have no effect on a machine.
func hostEffect(p *block.Plan, m *block.Machine) {
	if elsewhere(m) {
		return
	}
	b := m.Said["host"]
	if g, ok := b.Args["defender_exclusions"]; ok && !b.Defaults() && !reported(p, g.At) {
		if g.Value.False() {
			p.FailOn(m.Name, g.At, "argument without effect",
				"defender_exclusions = false leaves the machine as it is. Remove it.")
		} else if p.Cluster == nil {
			p.FailOn(m.Name, g.At, "argument without effect",
				"Node %q joins no cluster, so it has no programs for \"defender_exclusions\". Remove it.", m.Name)
		}
	}
	if g, ok := b.Args["static_address"]; ok && m.GivenBuild != "" && !olderThan2022(m.GivenBuild) && !reported(p, g.At) {
		p.FailOn(m.Name, g.At, "argument without effect", "Node %q has build %s, and from Windows Server 2022 on "+
			"HNS keeps a static address by itself. Remove \"static_address\".", m.Name, m.GivenBuild)
	}
}

// olderThan2022 reports whether a build is that of a release before Windows Server 2022.
func olderThan2022(build string) bool {
	r, _, ok := compat.WindowsRelease(build)
	return !ok || r.Number < 20348
}

// rebootTimes reports a reboot window without times, and times without a window.
func rebootTimes(p *block.Plan, m *block.Machine) {
	if elsewhere(m) {
		return
	}
	b := m.Said["host"]
	policy, given := b.Args["reboot"]
	if given && reported(p, policy.At) {
		return // what it was to say is not known
	}
	window := b.Text("reboot") == kinds.RebootWindow
	times, timed := b.Args["reboot_times"]
	switch {
	case window && !timed:
		p.FailOn(m.Name, policy.At, "missing argument",
			"With reboot = \"window\" the machine of node %q is never rebooted unless \"reboot_times\" says when.", m.Name)
	case !timed || reported(p, times.At):
	case !window:
		p.FailOn(m.Name, times.At, "argument without effect",
			"Node %q has no reboot = \"window\", so these times have no effect. Add it, or remove them.", m.Name)
	case len(b.Texts("reboot_times")) == 0:
		p.FailOn(m.Name, times.At, "missing value", "The list is empty, so the machine of node %q is never "+
			"rebooted. Write at least one, or reboot = \"never\".", m.Name)
	}
}

package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/names"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

// settings makes a rule over the settings of a machine. A machine with wrong settings is
// not expanded.
func settings(rule func(p *block.Plan, m *block.Machine)) func(*block.Plan, *block.Machine) {
	return func(p *block.Plan, m *block.Machine) {
		before := p.Errors()
		rule(p, m)
		m.OK = m.OK && p.Errors() == before
	}
}

// reported reports whether there is an error for the text at a place.
func reported(p *block.Plan, at hcl.Range) bool {
	return slices.ContainsFunc(p.List, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Subject != nil && d.Subject.Filename == at.Filename &&
			d.Subject.Start.Byte <= at.Start.Byte && at.End.Byte <= d.Subject.End.Byte
	})
}

// windowsBlocks are the blocks of settings that only Windows has.
var windowsBlocks = []string{"firewall", "services", "csi_proxy", "windows_exporter"}

// elsewhere reports whether a machine is known not to run Windows.
func elsewhere(m *block.Machine) bool { return m.OS != "windows" && m.OS != "" }

// settingsOfWindows reports settings of Windows on another system.
func settingsOfWindows(p *block.Plan, m *block.Machine) {
	if !elsewhere(m) {
		return
	}
	fail := func(at hcl.Range, what string) {
		p.FailOn(m.Name, at, "setting for Windows",
			"%s is only for Windows, and node %q runs %s. Remove it, or give it to a profile of Windows nodes only.", what,
			m.Name, m.OS)
	}
	for _, name := range windowsBlocks {
		if b, ok := m.Said[name]; ok {
			fail(b.At, "A "+name+" block")
		}
	}
	for _, a := range m.Said["host"].HostArgs() {
		if !a.Anywhere && !reported(p, a.At) {
			fail(a.At, fmt.Sprintf("The argument %q", a.Written))
		}
	}
}

// proxyAddress reports a proxy block without an address. Node and profile may each give a part.
func proxyAddress(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["proxy"]
	if _, given := b.Args["http"]; !ok || given || b.Text("https") != "" {
		return
	}
	p.FailOn(m.Name, b.At, "missing argument",
		"The proxy block of node %q gives neither \"http\" nor \"https\", here or in its profile, so it has no effect.",
		m.Name)
}

// filePaths reports files whose path the machine's system cannot have.
func filePaths(p *block.Plan, m *block.Machine) {
	for _, key := range slices.Sorted(maps.Keys(m.Said)) {
		b := m.Said[key]
		path := b.Text("path")
		if !strings.HasPrefix(key, "file ") || path == "" || m.OS == "" {
			continue
		}
		if why := names.BadPath(m.OS, path); why != "" {
			p.Fail(b.Args["path"].At, "invalid path", "%q cannot be a path on %s: %s.", path, m.OS, why)
		}
	}
}

// services reports arguments of a services block that have no effect.
func services(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["services"]
	switch {
	case !ok || elsewhere(m):
		return
	case len(p.Written["cluster"]) == 0:
		p.FailOn(m.Name, b.At, "block without effect",
			"Node %q joins no cluster, so it has no services of nodejoin. Remove it.", m.Name)
		return
	}
	nssm := b.Text("manager") == "nssm"
	logEffect(p, m, b, nssm)
	if g, ok := b.Args["manager"]; ok && nssm && p.Cluster != nil && p.Cluster.Base.Join.Kind == "kubeadm" {
		p.FailOn(m.Name, g.At, "nssm not possible", "Node %q joins by kubeadm, which runs the kubelet as its own "+
			"service. Leave the manager \"native\", or join in another way.", m.Name)
	}
	if g, ok := b.Args["priority"]; ok && slices.ContainsFunc(m.Components["kubelet"].Args,
		func(a string) bool { return host.FlagName(a) == recipe.PriorityFlag }) {
		p.FailOn(m.Name, g.At, "duplicate flag",
			"Node %q has --%s in the extra_args of its kubelet, too. Remove one of the two.", m.Name, recipe.PriorityFlag)
	}
}

// logEffect reports arguments for logs that have no effect in the plan's version.
func logEffect(p *block.Plan, m *block.Machine, b block.SettingBlock, nssm bool) {
	if p.Cluster == nil {
		return
	}
	k, err := compat.Kubelet(p.Cluster.Version)
	if err != nil {
		return
	}
	for _, name := range []string{"log_size", "log_age"} {
		var why string
		switch {
		case nssm && name == "log_age":
			why = "nssm never removes rotated logs"
		case nssm:
		case !k.LogRunner && name == "log_age":
			why = "the programs of Kubernetes " + p.Cluster.Version + " keep one file of bounded size"
		case k.LogRunner && !k.LogRunnerRotationFlags:
			why = "kube-log-runner of Kubernetes " + p.Cluster.Version + " keeps one file without a size limit (1.34 has one)"
		}
		g, ok := b.Args[name]
		if !ok || why == "" {
			continue
		}
		remedy := "Remove it."
		if name == "log_size" {
			remedy = "Remove it, or let nssm run the services."
		}
		p.FailOn(m.Name, g.At, "argument without effect", "On node %q the argument %q has no effect: %s. %s", m.Name,
			name, why, remedy)
	}
}

// addons reports blocks of programs beside the node's own that lack what they need.
func addons(p *block.Plan, m *block.Machine) {
	for _, name := range []string{"csi_proxy", "windows_exporter"} {
		b, ok := m.Said[name]
		if !ok || !b.Installed() || elsewhere(m) {
			continue
		}
		if len(p.Written["cluster"]) == 0 {
			p.FailOn(m.Name, b.At, "block without effect", "Node %q joins no cluster, so it gets no %s. Remove it.",
				m.Name, name)
		} else if b.Args["version"].Value == cty.NilVal {
			p.FailOn(m.Name, b.At, "missing argument", "The %s block of node %q has no \"version\", here or in its profile.",
				name, m.Name)
		}
	}
}

// collectors reports a collector that textfile_dir already enables.
func collectors(p *block.Plan, m *block.Machine) {
	b, ok := exporter(p, m)
	if !ok || b.Text("textfile_dir") == "" || !slices.Contains(b.Texts("collectors"), "textfile") {
		return
	}
	p.FailOn(m.Name, b.Args["collectors"].At, "argument without effect",
		"Node %q has a \"textfile_dir\", with which nodejoin enables the collector \"textfile\". Leave it out here.", m.Name)
}

// exporter returns the block of windows_exporter, if the machine gets the program.
func exporter(p *block.Plan, m *block.Machine) (block.SettingBlock, bool) {
	b := m.Said["windows_exporter"]
	return b, b.Installed() && b.Text("version") != "" && !elsewhere(m) && len(p.Written["cluster"]) > 0
}

// firewallEffect reports arguments of a firewall block that have no effect.
func firewallEffect(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["firewall"]
	if !ok || elsewhere(m) {
		return
	}
	if !unmanaged(m) {
		if g, ok := b.Args["remote"]; ok && p.Cluster == nil {
			p.FailOn(m.Name, g.At, "argument without effect", "Node %q joins no cluster, so it has no rules of its own "+
				"that \"remote\" could be for. Give it to the allow blocks.", m.Name)
		}
		return
	}
	for _, name := range []string{"remote", "node_ports"} {
		if o, ok := b.Args[name]; ok {
			p.FailOn(m.Name, o.At, "argument without effect", "With manage = false node %q gets no rules of nodejoin, "+
				"so the argument %q has no effect. Remove one of the two.", m.Name, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
		p.FailOn(m.Name, b.Rules[name].At, "block without effect",
			"With manage = false node %q gets no rules of nodejoin. Remove this block, or manage = false.", m.Name)
	}
	if x, ok := exporter(p, m); ok {
		if g, open := x.Args["remote"]; open {
			p.FailOn(m.Name, g.At, "argument without effect", "With manage = false in its firewall block node %q gets no "+
				"rules of nodejoin, so the argument \"remote\" has no effect. Remove one of the two.", m.Name)
		}
	}
}

// unmanaged reports whether the plan leaves the firewall of a machine alone.
func unmanaged(m *block.Machine) bool {
	g, ok := m.Said["firewall"].Args["manage"]
	return ok && g.Value.False()
}

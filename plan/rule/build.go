package rule

import (
	"cmp"
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
)

// windowsBuild checks a machine's Windows build, as far as it is known, against the versions
// that it gets.
func windowsBuild(p *block.Plan, m *block.Machine) {
	s := m.Section
	box := m.Connection.Sandbox
	if m.GivenBuild != "" && s.Has("build") {
		switch {
		case !compat.ValidBuild(m.GivenBuild):
			s.Fail("build", "invalid build", "%q is not a Windows build. Write it as 10.0.20348.", m.GivenBuild)
			return
		case m.OS != "" && m.OS != "windows":
			s.Fail("build", "argument without effect", "The argument \"build\" is for Windows, and node %q runs %s. Remove it.",
				m.Name, m.OS)
			return
		}
	}
	if box != nil && s.Has("build") {
		s.Fail("build", "arguments exclude each other",
			"The build of a sandbox is the argument \"build\" of its connection. Remove it here.")
		return
	}
	build := m.GivenBuild
	if box != nil {
		build = cmp.Or(box.Build, block.SandboxBuild)
	}
	if p.Cluster == nil || p.Cluster.Version == "" || build == "" || m.OS != "windows" || !compat.ValidBuild(build) {
		return
	}
	at := m.Range
	if s.Has("build") {
		at = s.At("build")
	}
	k := p.Cluster
	if have, err := compat.Kubelet(k.Version); err != nil || !have.Supported {
		return // reported
	}
	switch v := compat.CheckWindows(k.Version, build); {
	case v.Status == compat.Deprecated:
		p.Warn(at, "Windows release out of service", "%s%s", v.Why, block.Instead(v))
	case v.Status == compat.NotYet:
		p.Warn(at, "untested versions", "Kubernetes %s is not tested on %s: %s.", k.Version, v.Name, v.Why)
	case v.Status != compat.OK && v.Status != compat.NoVersion:
		s.OK = false
		p.FailOn(m.Name, at, "Windows build not supported",
			"Node %q has Windows build %s, which cannot be a node of Kubernetes %s: %s%s", m.Name, build, k.Version, v.Why,
			block.Instead(v))
		return
	case strings.Contains(v.Assumed, "Windows"):
		p.Warn(at, "version newer than the tables", "%s.", v.Assumed)
	}
	if v := compat.CheckPause(cmp.Or(k.Base.Runtime.Pause, compat.PauseImage("windows", build)),
		build); v.Status == compat.Refused {
		s.OK = false
		p.FailOn(m.Name, k.RuntimeBlock.At("pause_image"), "pause image not for the build",
			"Node %q cannot start pods: %s%s", m.Name, v.Why, block.Instead(v))
	}
	if strings.Count(build, ".") == 3 { // else the machine's revision shows only when it is asked
		for _, issue := range compat.KnownIssues(build, k.Base.Network.Backend) {
			if issue.Fixed == 0 {
				continue // no revision says that it is gone
			}
			p.WarnOn(m.Name, at, "known defect of the build", "Node %q has Windows build %s: %s (%s). Install %s.", m.Name,
				build, issue.What, issue.Source, issue.Fix)
		}
	}
	var features []compat.WindowsFeature
	if k.Base.Network.Backend == recipe.VXLAN {
		features = append(features, compat.Overlay)
	}
	if k.Pods6.IsValid() {
		features = append(features, compat.DualStack)
	}
	if kernel, _ := m.Components["kube_proxy"].Config["winkernel"].(map[string]any); kernel["enableDSR"] == true {
		features = append(features, compat.DSR)
	}
	for _, f := range features {
		if v := compat.CheckWindowsFeature(f, build); !v.Accepted() && v.Status != compat.Unknown {
			s.OK = false
			p.FailOn(m.Name, at, "Windows feature missing",
				"Node %q has Windows build %s, without %q, which the plan needs: %s%s", m.Name, build, string(f), v.Why,
				block.Instead(v))
		}
	}
}

// otherSystem reports fields that a machine's operating system does not have.
func otherSystem(p *block.Plan, m *block.Machine) {
	for _, k := range block.Components {
		for _, o := range m.Components[k.Block].Only {
			switch {
			case o.Not != m.OS:
				continue
			case m.OS == "windows":
				p.FailOn(m.Name, o.At, "field not for Windows", "Node %q runs Windows, and its %s block has %q: %s. Remove it, "+
					"or move it to a profile for Linux nodes; nodejoin writes what works.", m.Name, k.Block, o.Field, o.Why)
			default:
				p.FailOn(m.Name, o.At, "field not for Linux",
					"Node %q runs Linux, and its %s block has %q: %s. Remove it, or move it to a profile for Windows nodes.", m.Name,
					k.Block, o.Field, o.Why)
			}
			m.OK = false
		}
	}
}

// serverReturn reports direct server return without the feature gate that it
// needs in older versions. Field and gate may come from different blocks.
func serverReturn(p *block.Plan, m *block.Machine) {
	if p.Cluster == nil {
		return
	}
	config := m.Components["kube_proxy"].Config
	kernel, _ := config["winkernel"].(map[string]any)
	gates, _ := config["featureGates"].(map[string]any)
	k, err := compat.Kubelet(p.Cluster.Version)
	if err == nil && k.WinDSRGate && kernel["enableDSR"] == true && gates["WinDSR"] != true {
		p.FailOn(m.Name, m.Range, "feature gate missing", "Node %q has winkernel.enableDSR, which kube-proxy of "+
			"Kubernetes %s accepts only with the feature gate WinDSR. Add to the kube_proxy block: config = { featureGates = "+
			"{ WinDSR = true } }.", m.Name, p.Cluster.Version)
		m.OK = false
	}
}

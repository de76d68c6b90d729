package plan

import (
	"cmp"
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
	"strings"
)

// windowsBuild holds what is known of a machine's Windows build against the
// versions that are put on it.
func windowsBuild(p *decoded, m *machine) {
	s := m.Section
	box := m.Connection.Sandbox
	if m.build != "" && s.Has("build") {
		switch {
		case !compat.ValidBuild(m.build):
			s.Fail("build", "invalid build", "%q is no Windows build. Write it as 10.0.20348.", m.build)
			return
		case m.OS != "" && m.OS != "windows":
			s.Fail("build", "argument without effect", "The argument \"build\" is for Windows, and node %q runs %s. Remove it.", m.Name, m.OS)
			return
		}
	}
	if box != nil && s.Has("build") {
		s.Fail("build", "arguments exclude each other", "The build of a sandbox is the argument \"build\" of its connection. Remove it here.")
		return
	}
	build := m.build
	if box != nil {
		build = cmp.Or(box.Build, sandboxBuild)
	}
	if p.cluster == nil || p.cluster.Version == "" || build == "" || m.OS != "windows" || !compat.ValidBuild(build) {
		return
	}
	at := m.at
	if s.Has("build") {
		at = s.At("build")
	}
	k := p.cluster
	if have, err := compat.Kubelet(k.Version); err != nil || !have.Supported {
		return // reported
	}
	switch v := compat.CheckWindows(k.Version, build); {
	case v.Status == compat.Deprecated:
		p.Warn(at, "Windows release out of service", "%s%s", v.Why, instead(v))
	case v.Status == compat.NotYet:
		p.Warn(at, "untested versions", "Kubernetes %s is not tested on %s: %s.", k.Version, v.Name, v.Why)
	case v.Status != compat.OK && v.Status != compat.NoVersion:
		s.OK = false
		p.FailOn(m.Name, at, "Windows build not supported", "Node %q has Windows build %s, which cannot be a node of Kubernetes %s: %s%s", m.Name, build, k.Version, v.Why, instead(v))
		return
	case strings.Contains(v.Assumed, "Windows"):
		p.Warn(at, "version newer than the tables", "%s.", v.Assumed)
	}
	if v := compat.CheckPause(cmp.Or(k.base.Runtime.Pause, compat.PauseImage("windows", build)), build); v.Status == compat.Refused {
		s.OK = false
		p.FailOn(m.Name, k.runtime.At("pause_image"), "pause image not for the build", "Node %q cannot start pods: %s%s", m.Name, v.Why, instead(v))
	}
	if strings.Count(build, ".") == 3 { // else the machine's revision shows only when it is asked
		for _, issue := range compat.KnownIssues(build, k.base.Network.Backend) {
			if issue.Fixed == 0 {
				continue // no revision says that it is gone
			}
			p.WarnOn(m.Name, at, "known defect of the build", "Node %q has Windows build %s: %s (%s). Install %s.", m.Name, build, issue.What, issue.Source, issue.Fix)
		}
	}
	var features []compat.WindowsFeature
	if k.base.Network.Backend == recipe.VXLAN {
		features = append(features, compat.Overlay)
	}
	if k.pods6.IsValid() {
		features = append(features, compat.DualStack)
	}
	if kernel, _ := m.components["kube_proxy"].config["winkernel"].(map[string]any); kernel["enableDSR"] == true {
		features = append(features, compat.DSR)
	}
	for _, f := range features {
		if v := compat.CheckWindowsFeature(f, build); !v.Accepted() && v.Status != compat.Unknown {
			s.OK = false
			p.FailOn(m.Name, at, "Windows feature missing", "Node %q has Windows build %s, without %q, which the plan needs: %s%s", m.Name, build, string(f), v.Why, instead(v))
		}
	}
}

// otherSystem reports fields that a machine's operating system does not have.
func otherSystem(p *decoded, m *machine) {
	for _, k := range components {
		for _, o := range m.components[k.block].only {
			switch {
			case o.not != m.OS:
				continue
			case m.OS == "windows":
				p.FailOn(m.Name, o.at, "field not for Windows", "Node %q runs Windows, and its %s block has %q: %s. Remove it, or say it in a profile for Linux nodes; nodejoin writes what works.", m.Name, k.block, o.field, o.why)
			default:
				p.FailOn(m.Name, o.at, "field not for Linux", "Node %q runs Linux, and its %s block has %q: %s. Remove it, or say it in a profile for Windows nodes.", m.Name, k.block, o.field, o.why)
			}
			m.OK = false
		}
	}
}

// serverReturn reports direct server return without the feature gate that it
// needs in older versions. Field and gate may come from different blocks.
func serverReturn(p *decoded, m *machine) {
	if p.cluster == nil {
		return
	}
	config := m.components["kube_proxy"].config
	kernel, _ := config["winkernel"].(map[string]any)
	gates, _ := config["featureGates"].(map[string]any)
	k, err := compat.Kubelet(p.cluster.Version)
	if err == nil && k.WinDSRGate && kernel["enableDSR"] == true && gates["WinDSR"] != true {
		p.FailOn(m.Name, m.at, "feature gate missing", "Node %q has winkernel.enableDSR, which kube-proxy of Kubernetes %s takes with the feature gate WinDSR only. Add to the kube_proxy block: config = { featureGates = { WinDSR = true } }.", m.Name, p.cluster.Version)
		m.OK = false
	}
}

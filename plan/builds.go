package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// sandboxBuild is the build of a sandbox that names none.
const sandboxBuild = "10.0.20348"

// windowsBuild holds what is known of a machine's Windows build against the
// versions that are put on it.
func (c *compiler) windowsBuild(s *eval.Section, m *machine) {
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
	if c.cluster == nil || c.cluster.Version == "" || build == "" || m.OS != "windows" || !compat.ValidBuild(build) {
		return
	}
	at := m.at
	if s.Has("build") {
		at = s.At("build")
	}
	k := c.cluster
	if have, err := compat.Kubelet(k.Version); err != nil || !have.Supported {
		return // reported
	}
	switch v := compat.CheckWindows(k.Version, build); {
	case v.Status == compat.Deprecated:
		c.Warn(at, "Windows release out of service", "%s%s", v.Why, instead(v))
	case v.Status == compat.NotYet:
		c.Warn(at, "untested versions", "Kubernetes %s is not tested on %s: %s.", k.Version, v.Name, v.Why)
	case v.Status != compat.OK && v.Status != compat.NoVersion:
		s.OK = false
		c.FailOn(m.Name, at, "Windows build not supported", "Node %q has Windows build %s, which cannot be a node of Kubernetes %s: %s%s", m.Name, build, k.Version, v.Why, instead(v))
		return
	case strings.Contains(v.Assumed, "Windows"):
		c.Warn(at, "version newer than the tables", "%s.", v.Assumed)
	}
	if v := compat.CheckPause(cmp.Or(k.base.Runtime.Pause, compat.PauseImage("windows", build)), build); v.Status == compat.Refused {
		s.OK = false
		c.FailOn(m.Name, k.pauseAt, "pause image not for the build", "Node %q cannot start pods: %s%s", m.Name, v.Why, instead(v))
	}
	if strings.Count(build, ".") == 3 { // else the machine's revision shows only when it is asked
		for _, issue := range compat.KnownIssues(build, k.base.Network.Backend) {
			if issue.Fixed == 0 {
				continue // no revision says that it is gone
			}
			c.WarnOn(m.Name, at, "known defect of the build", "Node %q has Windows build %s: %s (%s). Install %s.", m.Name, build, issue.What, issue.Source, issue.Fix)
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
			c.FailOn(m.Name, at, "Windows feature missing", "Node %q has Windows build %s, without %q, which the plan needs: %s%s", m.Name, build, string(f), v.Why, instead(v))
		}
	}
}

// ownLabels are set by the kubelet itself, from what it runs on (kubernetes
// pkg/kubelet/kubelet_node_status.go).
var ownLabels = map[string]bool{"kubernetes.io/os": true, "kubernetes.io/arch": true, "kubernetes.io/hostname": true, "node.kubernetes.io/windows-build": true}

// labelKeys judges the keys of labels and taints by name.
func (c *compiler) labelKeys(s *eval.Section, p *profile) {
	if c.cluster == nil || c.cluster.Version == "" {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		v := compat.CheckLabel(key, c.cluster.Version)
		switch {
		case ownLabels[key]:
			s.OK = false
			c.Fail(s.AtKey("labels", key), "label that the kubelet sets", "The kubelet gives its Node the label %q from what it runs on, and would set it back. Remove it.", key)
		case v.Status == compat.Deprecated || v.Status == compat.Removed:
			c.Warn(s.AtKey("labels", key), "deprecated label", "The label %q: %s%s", key, v.Why, instead(v))
		}
	}
	for i, b := range s.Blocks.OfType("taint") {
		if i >= len(p.taints) {
			break
		}
		v := compat.CheckLabel(p.taints[i].Key, c.cluster.Version)
		if v.Status == compat.Deprecated || v.Status == compat.Removed {
			c.Warn(b.DefRange, "deprecated label", "The taint %q: %s, so what tolerates the one does not tolerate the other%s", p.taints[i].Key, v.Why, instead(v))
		}
	}
}

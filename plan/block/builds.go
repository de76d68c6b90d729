package block

import (
	"cmp"
	"maps"
	"slices"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
)

// SandboxBuild is the default build of a sandbox.
const SandboxBuild = "10.0.20348"

// ownLabels are set by the kubelet itself, from what it runs on (kubernetes
// pkg/kubelet/kubelet_node_status.go).
var ownLabels = map[string]bool{"kubernetes.io/os": true, "kubernetes.io/arch": true, "kubernetes.io/hostname": true,
	"node.kubernetes.io/windows-build": true}

// labelKeys checks the keys of labels and taints.
func labelKeys(s *eval.Section, p *profile, version string) {
	if version == "" {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		v := compat.CheckLabel(key, version)
		switch {
		case ownLabels[key]:
			s.FailAt(s.AtKey("labels", key), "label that the kubelet sets",
				"The kubelet gives its Node the label %q from what it runs on, and would set it back. Remove it.", key)
		case v.Status == compat.Deprecated || v.Status == compat.Removed:
			s.Scope.Warn(s.AtKey("labels", key), "deprecated label", "The label %q: %s%s", key, v.Why, Instead(v))
		}
	}
	for i, b := range s.Blocks.OfType("taint") {
		if i >= len(p.taints) {
			break
		}
		v := compat.CheckLabel(p.taints[i].Key, version)
		if v.Status == compat.Deprecated || v.Status == compat.Removed {
			s.Scope.Warn(b.DefRange, "deprecated label",
				"The taint %q: %s, so what tolerates the one does not tolerate the other%s", p.taints[i].Key, v.Why, Instead(v))
		}
	}
}

// KnownBuild is the build of a Windows machine by the plan; "" if the plan does not give it.
func (m *Machine) KnownBuild() string {
	if box := m.Connection.Sandbox; box != nil {
		return cmp.Or(box.Build, SandboxBuild)
	}
	return m.GivenBuild
}

package rule

import (
	"nodejoin/plan/block"
	"nodejoin/plan/compat"
)

// artifactVersion reports a version that has no effect or would contradict another block.
func artifactVersion(p *block.Plan, a *block.Artifact) {
	s, name, src := a.Section, a.Name, a.Source
	if !s.Has("version") || len(p.Written["cluster"]) == 0 {
		return
	}
	owner, has := VersionOwners[name]
	switch {
	case has:
		s.Fail("version", "version given twice",
			"The version of the artifact %q is the argument %s: the nodes are configured for it. Remove it here.", name,
			owner.argument)
	case src.URL != "" || src.File != "":
		s.Fail("version", "argument without effect",
			"The version of the artifact %q is only used in its upstream name, and url or file is given here. Remove it.", name)
	}
}

// NeedsVersion reports whether the upstream name or address of an artifact contains its
// version. A folder has the upstream file names, and not all of them contain one.
func NeedsVersion(p *block.Plan, name string) bool {
	return p.Mirror == nil || p.Mirror.Path == "" || compat.VersionInFileName(name)
}

// VersionOwners are the arguments of other blocks that give an artifact's version.
var VersionOwners = map[string]struct {
	argument string
	Version  func(*block.ClusterBlocks, *block.Machine) string
}{
	compat.KubernetesNode: {"kubernetes of the cluster block", func(k *block.ClusterBlocks,
		_ *block.Machine) string {
		return k.Version
	}},
	compat.ContainerdName: {"version of the runtime block", func(k *block.ClusterBlocks,
		_ *block.Machine) string {
		return k.Base.Runtime.Version
	}},
	compat.DockerName: {"version of the runtime block", func(k *block.ClusterBlocks,
		_ *block.Machine) string {
		return k.Base.Runtime.Version
	}},
	compat.MCR: {"version of the runtime block", func(k *block.ClusterBlocks,
		_ *block.Machine) string {
		return k.Base.Runtime.Version
	}},
	compat.Crictl: {"crictl of the runtime block", func(k *block.ClusterBlocks,
		_ *block.Machine) string {
		return k.Base.Runtime.Crictl
	}},
	compat.CSIProxy: {"version of the csi_proxy block", func(_ *block.ClusterBlocks, m *block.Machine) string {
		if m.RecipeSettings.CSIProxy == nil {
			return ""
		}
		return m.RecipeSettings.CSIProxy.Version
	}},
	compat.WindowsExporter: {"version of the windows_exporter block", func(_ *block.ClusterBlocks,
		m *block.Machine) string {
		if m.RecipeSettings.Exporter == nil {
			return ""
		}
		return m.RecipeSettings.Exporter.Version
	}},
	compat.Flanneld: {"version of the network block", func(k *block.ClusterBlocks,
		_ *block.Machine) string {
		return k.Base.Network.Version
	}},
}

package plan

import (
	"nodejoin/plan/compat"
)

// artifactVersion reports a version that has no effect or would contradict another block.
func artifactVersion(p *decoded, a *artifact) {
	s, name, src := a.Section, a.name, a.source
	if !s.Has("version") || len(p.written["cluster"]) == 0 {
		return
	}
	owner, has := versionOwners[name]
	switch {
	case has:
		s.Fail("version", "version given twice", "The version of the artifact %q is the argument %s: the nodes are configured for it. Remove it here.", name, owner.argument)
	case src.URL != "" || src.File != "":
		s.Fail("version", "argument without effect", "The version of the artifact %q only makes its upstream name, and here url or file is given. Remove it.", name)
	case !needsVersion(p, name):
		s.Fail("version", "argument without effect", "The file name of the artifact %q holds no version, so in a mirror this says nothing. Remove it.", name)
	}
}

// needsVersion tells whether the name or address of an artifact is made of its
// version. A mirror has the upstream file names, and not all of them hold one.
func needsVersion(p *decoded, name string) bool {
	return p.mirror == nil || compat.VersionInFileName(name)
}

// versionOwners are the arguments of other blocks that give an artifact's version.
var versionOwners = map[string]struct {
	argument string
	version  func(*cluster, *machine) string
}{
	compat.KubernetesNode: {"kubernetes of the cluster block", func(k *cluster, _ *machine) string { return k.Version }},
	compat.ContainerdName: {"version of the runtime block", func(k *cluster, _ *machine) string { return k.base.Runtime.Version }},
	compat.DockerName:     {"version of the runtime block", func(k *cluster, _ *machine) string { return k.base.Runtime.Version }},
	compat.MCR:            {"version of the runtime block", func(k *cluster, _ *machine) string { return k.base.Runtime.Version }},
	compat.Crictl:         {"crictl of the runtime block", func(k *cluster, _ *machine) string { return k.base.Runtime.Crictl }},
	compat.CSIProxy: {"version of the csi_proxy block", func(_ *cluster, m *machine) string {
		if m.settings.CSIProxy == nil {
			return ""
		}
		return m.settings.CSIProxy.Version
	}},
	compat.WindowsExporter: {"version of the windows_exporter block", func(_ *cluster, m *machine) string {
		if m.settings.Exporter == nil {
			return ""
		}
		return m.settings.Exporter.Version
	}},
	compat.Flanneld: {"version of the network block", func(k *cluster, _ *machine) string { return k.base.Network.Version }},
}

package plan

import (
	"cmp"
	"slices"
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/templates"
)

// manifestsBlock renders the objects that the cluster gets. The nodes are decoded by then, and
// not yet expanded.
func (c *compiler) manifestsBlock() {
	blocks := c.Written["manifests"]
	if len(blocks) == 0 {
		return
	}
	b := blocks[0]
	before := c.Errors()
	s := c.Section(block.Root("manifests"), b, c.Ctx)
	k := c.Cluster
	if k == nil {
		c.Fail(b.DefRange, "block without effect",
			"Manifests are objects of a cluster, and the plan has no cluster block. Add one, or remove this block.")
		return
	}
	w := recipe.Wanted{Flannel: s.Bool("flannel"), KubeProxy: s.Bool("kube_proxy"), Bootstrap: s.Bool("bootstrap"),
		FlannelImage:    s.Str("flannel_image"),
		FlannelCNIImage: s.Str("flannel_cni_image"), Force: s.Bool("force"), Keep: s.Bool("keep"),
		Source: c.Files.Place(b.DefRange)}
	classes := s.Bool("runtime_classes")
	if !s.OK || !k.Whole() {
		return
	}
	apply := !s.Has("apply") || s.Bool("apply")
	if !w.Flannel && !w.KubeProxy && !w.Bootstrap && !classes {
		c.Fail(b.DefRange, "block without effect",
			"The block asks for no manifest. Write bootstrap, flannel, kube_proxy or runtime_classes = true, or remove it.")
	}
	if w.Force && !apply {
		s.Fail("force", "argument without effect",
			"With apply = false nothing is applied, so nothing is taken over. Remove one of the two.")
	}
	c.flannelManifest(s, w)
	if w.Bootstrap && k.Base.Join.Kind == "kubeconfig" {
		s.Fail("bootstrap", "argument without effect",
			"The nodes join with the kubeconfig that the plan names, without bootstrap tokens. Remove it.")
	}
	if classes {
		w.Classes = c.runtimeClassesOf(s)
	}
	if c.Errors() > before {
		return
	}
	list, err := recipe.Manifests(k.Base, w, cmp.Or(k.ServerVersion, k.Version))
	if err != nil {
		c.Fail(b.DefRange, "invalid manifest", "The manifests cannot be rendered: %s.", err)
		return
	}
	for _, m := range list {
		k.Manifests = append(k.Manifests, block.Manifest{Name: m.Name, Content: m.Content, Source: m.Source})
		if apply {
			c.objects.Add(m.Step(), m.ID())
		}
	}
	if apply {
		k.Base.Manifests = list
	}
}

// flannelManifest checks the arguments for flannel's manifest.
func (c *compiler) flannelManifest(s *eval.Section, w recipe.Wanted) {
	k := c.Cluster
	for _, name := range []string{"flannel_image", "flannel_cni_image"} {
		if s.Has(name) && !w.Flannel {
			s.Fail(name, "argument without effect",
				"The argument %q is of flannel's manifest, which the block does not ask for. Write flannel = true, or remove it.",
				name)
		} else if text := s.Str(name); text != "" && strings.ContainsAny(text, " \t\r\n\"'") {
			s.Fail(name, "invalid image", "%q is not a name of an image.", text)
		}
	}
	switch {
	case !w.Flannel:
		return
	case k.Base.Network.Kind != "flannel":
		s.Fail("flannel", "argument without effect",
			"The network block says that the cluster brings its network itself, so there is no flannel. Remove it.")
		return
	}
	for _, m := range c.Machines {
		if m.OS == "linux" {
			s.Fail("flannel", "two flannels on one node", "The manifest runs flannel on all Linux nodes of the cluster, and "+
				"node %q gets flanneld as a service from this plan. Join the Linux nodes of the cluster without nodejoin, or "+
				"remove flannel here.", m.Name)
			return
		}
	}
}

// runtimeClassesOf are the classes of the plan's Windows nodes, one for each build.
func (c *compiler) runtimeClassesOf(s *eval.Section) []templates.RuntimeClass {
	var out []templates.RuntimeClass
	seen := false
	for _, m := range c.Machines {
		if m.OS != "windows" || m.Bad {
			continue
		}
		seen = true
		build := m.KnownBuild()
		if build == "" {
			c.FailOn(m.Name, m.Range, "build not known", "A RuntimeClass selects nodes by their Windows build, and the plan "+
				"does not say which node %q has. Write build = \"10.0.20348\" in its profile or node block, or remove "+
				"runtime_classes from the manifests block.", m.Name)
			continue
		}
		if !compat.ValidBuild(build) {
			continue // reported
		}
		build = labelledBuild(build)
		class := templates.RuntimeClass{Name: className(build, m.Arch), Arch: m.Arch, Build: build}
		i := slices.IndexFunc(out, func(o templates.RuntimeClass) bool {
			return o.Build == class.Build &&
				o.Arch == class.Arch
		})
		if i < 0 {
			i, out = len(out), append(out, class)
		}
		for _, t := range m.GivenTaints {
			if t := templates.Taint(t); !slices.Contains(out[i].Tolerations, t) {
				out[i].Tolerations = append(out[i].Tolerations, t)
			}
		}
	}
	if !seen && len(c.Machines) > 0 {
		s.Fail("runtime_classes", "argument without effect",
			"RuntimeClasses are for the Windows nodes of the plan, which has none. Remove it.")
	}
	for i := range out {
		slices.SortFunc(out[i].Tolerations, func(a, b templates.Taint) int {
			return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value), strings.Compare(a.Effect, b.Effect))
		})
	}
	slices.SortFunc(out, func(a, b templates.RuntimeClass) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// labelledBuild is a build as the kubelet labels its Node, without the revision
// (kubernetes pkg/kubelet/kubelet_node_status.go, getOSSpecificLabels).
func labelledBuild(build string) string {
	parts := strings.SplitN(build, ".", 4)
	return strings.Join(parts[:min(3, len(parts))], ".")
}

// className is the name of the RuntimeClass of a build: windows-2022, as in the
// documents of Kubernetes; windows-10.0.19042 where the release has no year.
func className(build, arch string) string {
	name := "windows-" + build
	if r, assumed, ok := compat.WindowsRelease(build); ok && assumed == "" && r.Channel == compat.LTSC {
		name = "windows-" + r.Name[strings.LastIndexByte(r.Name, ' ')+1:]
	}
	if arch != "amd64" {
		name += "-" + arch
	}
	return name
}

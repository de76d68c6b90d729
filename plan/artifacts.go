package plan

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
)

// artifact is an artifact block.
type artifact struct {
	source  steps.Source // URL and File only where the block gives them
	version string
	os      string // of the nodes that it is for; "" = any
	arch    string // as os
	at      hcl.Range
	ok      bool
	used    bool
	for_    string // "windows/amd64" of the first node that got it
	// forVersion is the version that the first node wants; "" where no block gives one.
	forVersion string
}

// fits tells whether an artifact is for the nodes of an OS and architecture, and how
// closely it says so.
func (a *artifact) fits(os, arch string) (closeness int, ok bool) {
	if a.os != "" && a.os != os || a.arch != "" && a.arch != arch {
		return 0, false
	}
	return eval.Btoi(a.os != "")*2 + eval.Btoi(a.arch != ""), true
}

var (
	hex256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hex512 = regexp.MustCompile(`^[0-9a-f]{128}$`)
)

// artifactBlocks reads the artifact blocks.
func (c *compiler) artifactBlocks() {
	c.artifacts = map[string][]*artifact{}
	for _, b := range c.plan.blocks["artifact"] {
		name := b.Labels[0]
		s := c.Section(rootBlock("artifact"), b, c.Ctx)
		if !slices.Contains(compat.ArtifactNames(), name) {
			c.Fail(b.LabelRanges[0], "unknown artifact", "%s", eval.UnknownName("artifact", name, compat.ArtifactNames()))
			continue
		}
		a := &artifact{version: c.version(s, "version"), os: s.Str("os"), arch: s.Str("arch"), at: b.DefRange}
		knownOS(s, "os", a.os)
		knownArch(s, "arch", a.arch)
		a.source = c.source(s, b.DefRange, false)
		c.checkVersion(s, name, a.source)
		if c.cluster == nil && len(c.plan.blocks["cluster"]) == 0 {
			c.Fail(b.DefRange, "block without effect", "An artifact block is for the nodes of a cluster, and the plan has no cluster block. Steps name their source themselves.")
		}
		a.ok = s.OK
		if i := slices.IndexFunc(c.artifacts[name], func(o *artifact) bool { return o.os == a.os && o.arch == a.arch }); i >= 0 {
			c.Fail(b.DefRange, "duplicate artifact", "There is another artifact %q for the same nodes at %s. One can be for each operating system and architecture: os = \"linux\". Remove one of them.", name, c.Files.Place(c.artifacts[name][i].at))
			continue
		}
		c.artifacts[name] = append(c.artifacts[name], a)
	}
}

// source reads url, file, sha256 and sha512. Where need is set one of url and file must be there.
func (c *compiler) source(s *eval.Section, at hcl.Range, need bool) steps.Source {
	src := steps.Source{URL: s.Str("url"), SHA256: strings.ToLower(s.Str("sha256")), SHA512: strings.ToLower(s.Str("sha512"))}
	if f := s.Str("file"); f != "" {
		src.File = c.Files.Home(f)
	}
	switch {
	case s.Has("url") && s.Has("file"):
		s.Fail("file", "arguments exclude each other", "An artifact comes from a url, fetched by the host, or from a file of the controller. Remove one of the two.")
	case need && !s.Has("url") && !s.Has("file") && !s.Misspelt("url") && !s.Misspelt("file"):
		c.Fail(at, "missing argument", "There is neither \"url\" nor \"file\", so there is nothing to install.")
		s.OK = false
	}
	if src.URL != "" {
		if u, err := url.Parse(src.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			s.Fail("url", "invalid URL", "%q is no http or https address.", src.URL)
		}
	}
	if src.SHA256 != "" && !hex256.MatchString(src.SHA256) {
		s.Fail("sha256", "invalid digest", "A sha256 digest has 64 hex digits; this has %d characters%s.", len(src.SHA256), notHex(src.SHA256))
	}
	if src.SHA512 != "" && !hex512.MatchString(src.SHA512) {
		s.Fail("sha512", "invalid digest", "A sha512 digest has 128 hex digits; this has %d characters%s.", len(src.SHA512), notHex(src.SHA512))
	}
	if !s.Has("sha256") && !s.Has("sha512") && !s.Misspelt("sha256") && !s.Misspelt("sha512") {
		c.Fail(at, "artifact without a digest", "Nothing is installed unchecked. Give sha256 or sha512, as its publisher shows it.")
		s.OK = false
	}
	return src
}

// notHex says that s has other characters than hex digits, "" when it has none.
func notHex(s string) string {
	if strings.Trim(s, "0123456789abcdef") == "" {
		return ""
	}
	return " and not all are hex digits"
}

// sources gives the artifacts that a machine's recipe asks for; ok is false when
// one is missing or wrong, which was reported.
func (c *compiler) sources(m *machine, names []string) (map[string]steps.Source, bool) {
	out, ok := map[string]steps.Source{}, true
	for _, name := range names {
		if name == recipe.AgentArtifact {
			src, good := c.agent(m)
			out[name], ok = src, ok && good
			continue
		}
		a := c.artifact(m, name)
		if a == nil {
			ok = false
			continue
		}
		a.used, c.used["artifact"] = true, true
		if !a.ok {
			ok = false
			continue
		}
		src, good := c.upstream(m, name, a)
		out[name], ok = src, ok && good
	}
	return out, ok
}

// artifact is the block of an artifact that is closest to a machine; nil when there is
// none, which is reported.
func (c *compiler) artifact(m *machine, name string) *artifact {
	var best *artifact
	most := -1
	for _, a := range c.artifacts[name] {
		if n, ok := a.fits(m.OS, m.Arch); ok && n > most {
			best, most = a, n
		}
	}
	have, all := m.OS+"/"+m.Arch, c.artifacts[name]
	switch {
	case best == nil && c.failedBefore("artifact."+name+" "+have):
	case best == nil && len(all) == 0 && c.failedBefore("artifact."+name):
	case best == nil && len(all) == 0:
		c.Fail(c.clusterAt(), "missing artifact", "The nodes need the artifact %q, and nothing is installed without a digest. Add: artifact %q { sha256 = \"...\" }.", name, name)
	case best == nil:
		c.FailOn(m.Name, all[0].at, "artifact for other nodes", "Node %q runs %s, and no block of the artifact %q is for that. Add one beside this: artifact %q { os = %q, sha256 = \"...\" }, each argument on a line of its own.", m.Name, have, name, name, m.OS)
	case best.for_ == "":
		best.for_ = have
		best.forVersion = c.ownedVersion(m, name)
	case best.for_ != have && !c.failedBefore("artifact at "+c.Files.Place(best.at)):
		argument := "os"
		if strings.HasPrefix(best.for_, m.OS+"/") {
			argument = "arch"
		}
		c.Fail(best.at, "artifact for two kinds of nodes", "Nodes of the plan run %s and %s, and the programs of the one do not run on the other, so one digest cannot be for both. Give each a block of the artifact %q with the argument %q.", best.for_, have, name, argument)
	}
	if best != nil && best.for_ == have && best.forVersion != c.ownedVersion(m, name) && !c.failedBefore("artifact version at "+c.Files.Place(best.at)) {
		c.Fail(best.at, "artifact for two versions", "Nodes of the plan want the versions %s and %s of the artifact %q, and one digest cannot be for both. Let all have one.", best.forVersion, c.ownedVersion(m, name), name)
	}
	return best
}

// ownedVersion is the version of an artifact that another block gives, "" = none does.
func (c *compiler) ownedVersion(m *machine, name string) string {
	if owner, has := versionOwners[name]; has && c.cluster != nil {
		return owner.version(c.cluster, m)
	}
	return ""
}

// upstream completes the source of an artifact that names neither url nor file: its
// upstream name in the mirror, or its upstream address.
func (c *compiler) upstream(m *machine, name string, a *artifact) (src steps.Source, ok bool) {
	src = a.source
	if src.URL != "" || src.File != "" {
		return src, true
	}
	if c.mirror == "" && len(c.plan.blocks["mirror"]) > 0 {
		return src, false // what is wrong with the mirror was reported
	}
	version := a.version
	if owner, has := versionOwners[name]; has {
		version = owner.version(c.cluster, m)
	}
	if version == "" && c.needsVersion(name) {
		c.Fail(a.at, "missing argument", "The artifact %q needs the argument \"version\": its upstream name or address is made of it, and no other block gives it.", name)
		return src, false
	}
	file, address := compat.Artifact(name, version, m.OS, m.Arch)
	switch {
	case file == "":
		c.Fail(a.at, "artifact not published", "Upstream publishes no %s for %s/%s. Give url or file.", name, m.OS, m.Arch)
		return src, false
	case c.mirror == "" && address == "" && name == compat.CSIProxy:
		c.Fail(a.at, "artifact not published", "The project of csi-proxy publishes no program; it is built from its source (make build). Give url or file, or a mirror.")
		return src, false
	case c.mirror == "" && address == "":
		c.Fail(a.at, "artifact not published", "The publisher of %s gives it to its customers and has no address for all. Give url or file, or a mirror.", name)
		return src, false
	case c.mirror != "":
		src.File, c.used["mirror"] = filepath.Join(c.mirror, file), true
	default:
		src.URL = address
	}
	return src, true
}

// needsVersion tells whether the name or address of an artifact is made of its
// version. A mirror has the upstream file names, and not all of them hold one.
func (c *compiler) needsVersion(name string) bool {
	return c.mirror == "" || compat.VersionInFileName(name)
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

// checkVersion reports a version that has no effect or would contradict another block.
func (c *compiler) checkVersion(s *eval.Section, name string, src steps.Source) {
	if !s.Has("version") || len(c.plan.blocks["cluster"]) == 0 {
		return
	}
	owner, has := versionOwners[name]
	switch {
	case has:
		s.Fail("version", "version given twice", "The version of the artifact %q is the argument %s: the nodes are configured for it. Remove it here.", name, owner.argument)
	case src.URL != "" || src.File != "":
		s.Fail("version", "argument without effect", "The version of the artifact %q only makes its upstream name, and here url or file is given. Remove it.", name)
	case !c.needsVersion(name):
		s.Fail("version", "argument without effect", "The file name of the artifact %q holds no version, so in a mirror this says nothing. Remove it.", name)
	}
}

func (c *compiler) clusterAt() hcl.Range { return c.plan.blocks["cluster"][0].DefRange }

// failedBefore tells, the second time it is asked for the same thing, that it was reported.
func (c *compiler) failedBefore(key string) bool {
	before := c.used["failed "+key]
	c.used["failed "+key] = true
	return before
}

// agent is the agent program for a machine.
func (c *compiler) agent(m *machine) (steps.Source, bool) {
	key := m.OS + "/" + m.Arch + "/" + m.Connection.Type
	a, ok := c.agents[key]
	if !ok {
		if c.opt.Agent == nil {
			c.Fail(m.at, "no agent", "This nodejoin has no agent for %s/%s.", m.OS, m.Arch)
			return steps.Source{}, false
		}
		a.source, a.err = c.opt.Agent(m.OS, m.Arch, m.Connection.Type)
		c.agents[key] = a
	}
	if a.err != nil {
		c.Fail(m.at, "no agent", "The agent for %s/%s cannot be had: %s.", m.OS, m.Arch, a.err)
		return steps.Source{}, false
	}
	return a.source, true
}

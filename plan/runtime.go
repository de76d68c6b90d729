package plan

import (
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
)

// runtimeSpecs are the container runtimes.
var runtimeSpecs = map[string]*blockSpec{
	"containerd": {name: "runtime", doc: "containerd as a service", attrs: []attrSpec{
		{name: "version", typ: cty.String, required: true, doc: "its version"},
		pauseAttr,
		{name: "crictl", typ: cty.String, doc: "version of crictl to install beside it, with its configuration; default none"},
	}, blocks: []*blockSpec{registrySpec}},
	"docker": {name: "runtime", doc: "Docker Engine as a service, for Kubernetes before 1.24", attrs: dockerAttrs},
	"mcr":    {name: "runtime", doc: "Mirantis Container Runtime as a service, for Kubernetes before 1.24", attrs: dockerAttrs},
}

var pauseAttr = attrSpec{name: "pause_image", typ: cty.String, doc: "sandbox image, default by OS and build"}

var dockerAttrs = []attrSpec{
	{name: "version", typ: cty.String, doc: "its version; needed unless installed"},
	pauseAttr,
	{name: "installed", typ: cty.Bool, doc: "the machine has it, as the service \"docker\"; nodejoin only demands that it runs"},
	{name: "config", typ: cty.DynamicPseudoType, doc: "fields of daemon.json, merged by key into what nodejoin writes; null removes a field"},
}

var registrySpec = &blockSpec{name: "registry", labels: []string{"host"}, doc: "where the images of one registry come from, as hosts.toml; containerd 1.5 and later", attrs: []attrSpec{
	{name: "mirrors", typ: strings_, doc: "addresses that are asked before the registry itself, in their order; of one with /v2/ in its path that is where its API begins (\"https://images.example/v2/k8s\")"},
	{name: "ca", typ: cty.String, doc: "CA of the mirrors, or of the registry where there are none, in PEM: file(\"ca.pem\"); default that of the machine"},
}}

func (c *compiler) runtimeBlock(at *hcl.Block, k *cluster) {
	blocks := c.plan.blocks["runtime"]
	if len(blocks) == 0 {
		if !c.plan.lost["runtime"] {
			c.diags.fail(at.DefRange, "missing block", "Nodes of a cluster need a container runtime. Add: runtime \"containerd\" { version = \"2.2.1\" }.")
		}
		return
	}
	b := blocks[0]
	spec := c.kind(rootBlock("runtime"), b)
	if spec == nil {
		return
	}
	s := c.section(spec, b, c.ctx)
	r := &k.base.Runtime
	*r = recipe.Runtime{Kind: b.Labels[0], Pause: s.str("pause_image")}
	k.pauseAt = s.at("pause_image")
	if r.Kind != "containerd" {
		c.docker(s, k.Version, r)
		return
	}
	r.Version, r.Crictl = c.version(s, "version"), c.version(s, "crictl")
	r.Registries = c.registries(s)
	if r.Version == "" {
		return
	}
	v, err := compat.LookupContainerd(r.Version)
	switch {
	case err != nil:
		return
	case !v.Supported:
		s.fail("version", "version not supported", "containerd %s cannot serve a kubelet on Windows; 1.4.0 is the first that can. Use a newer one.", r.Version)
		return
	case len(r.Registries) > 0 && !v.ConfigPath:
		s.fail("version", "version not supported", "containerd %s reads no hosts.toml, which a registry block writes. Use 1.5 or newer, or remove the block.", r.Version)
	case v.Assumed != "":
		c.diags.warn(s.at("version"), "version newer than the tables", "%s.", v.Assumed)
	}
	if k.Version == "" {
		return
	}
	if v := compat.CheckContainerd(k.Version, r.Version); !v.Accepted() {
		s.fail("version", "runtime not supported", "Kubernetes %s cannot use containerd %s: %s%s", k.Version, r.Version, v.Why, instead(v))
	} else if ok, known, want := compat.Tested(k.Version, r.Version); known && !ok {
		c.diags.warn(s.at("version"), "untested versions", "containerd %s is not tested with Kubernetes %s by its maintainers. These are, with their later patches: %s.", r.Version, k.Version, strings.Join(want, ", "))
	}
}

// docker reads a runtime of the kinds docker and mcr.
func (c *compiler) docker(s *section, kubernetes string, r *recipe.Runtime) {
	r.Installed = s.flag("installed")
	for _, name := range []string{"version", "config"} {
		if r.Installed && s.has(name) {
			s.fail(name, "arguments exclude each other", "With installed = true nodejoin does not touch the machine's docker, so %q says nothing. Remove one of the two.", name)
		}
	}
	if !r.Installed && !s.has("version") {
		c.diags.fail(s.block.DefRange, "missing argument", "The %s block needs the argument \"version\": what is installed. Where the machine has it already, give installed = true.", s.spec.title(s.block))
	}
	if text := s.str("version"); text != "" {
		version, err := compat.ParseDocker(text)
		r.Version = version
		if err != nil {
			s.fail("version", "invalid version", "%s. Write all three numbers, for example \"20.10.24\".", err)
		} else if v := compat.CheckDockerVersion(version); !v.Accepted() {
			s.fail("version", "version not supported", "%s%s", v.Why, instead(v))
		}
	}
	r.Config = c.daemonConfig(s)
	if kubernetes == "" {
		return
	}
	switch v := compat.CheckDocker(kubernetes); v.Status {
	case compat.Removed:
		c.diags.fail(s.block.LabelRanges[0], "runtime not supported", "Kubernetes %s cannot use %s: %s, and cri-dockerd, which would stand between, is not supported%s", kubernetes, r.Kind, v.Why, instead(v))
	case compat.Deprecated:
		c.diags.warn(s.block.LabelRanges[0], "deprecated runtime", "%s%s", v.Why, instead(v))
	}
}

// daemonConfig reads the argument "config" of a docker.
func (c *compiler) daemonConfig(s *section) map[string]any {
	out := s.object("config", "daemon.json is one")
	for _, name := range sortedKeys(out) {
		why := map[string]string{"hosts": "it is the pipe on which the kubelet speaks to it"}[name]
		if why != "" {
			s.fail("config", "field that nodejoin sets", "The field %q of daemon.json cannot be given here: %s.", name, why)
		}
	}
	return out
}

// registries reads the registry blocks of a containerd.
func (c *compiler) registries(s *section) []recipe.Registry {
	var out []recipe.Registry
	var sections []*section
	seen := map[string]bool{}
	for _, b := range s.blocks.OfType("registry") {
		in := c.section(registrySpec, b, c.ctx)
		r := recipe.Registry{Host: b.Labels[0], Mirrors: in.strs("mirrors"), CA: in.str("ca")}
		switch {
		case !registryHost.MatchString(r.Host):
			c.diags.fail(b.LabelRanges[0], "invalid registry", "%q is no registry as images name it: a name or address in lower case, and a port if it has one, for example \"docker.io\" or \"registry.example:5000\".", r.Host)
		case seen[strings.ReplaceAll(r.Host, ":", "")]:
			c.diags.fail(b.DefRange, "duplicate block", "There is another registry block for %q. Remove one of them.", r.Host)
		case !in.has("mirrors") && !in.has("ca"):
			c.diags.fail(b.DefRange, "missing argument", "The registry block has neither \"mirrors\" nor \"ca\", so it says nothing. Give one of them, or remove it.")
		}
		seen[strings.ReplaceAll(r.Host, ":", "")] = true
		for i, m := range r.Mirrors {
			if !mirrorURL(m) {
				c.diags.fail(in.atIndex("mirrors", i), "invalid URL", "%q is no http or https address of a registry. Write https://HOST:PORT.", m)
			}
		}
		if r.CA != "" && !certificates(r.CA) {
			in.fail("ca", "invalid certificate", "The argument \"ca\" holds no certificate in PEM, or something beside. Give file(\"ca.pem\").")
		}
		out, sections = append(out, r), append(sections, in)
	}
	c.mirrorCAs(out, sections)
	return out
}

// mirrorCAs warns of a mirror whose own registry block has a CA and whose use as a mirror
// has none: containerd reads the file of the registry that an image names, and no other.
func (c *compiler) mirrorCAs(list []recipe.Registry, at []*section) {
	for i, r := range list {
		for n, m := range r.Mirrors {
			u, err := url.Parse(m)
			if err != nil || r.CA != "" || u.Scheme != "https" {
				continue
			}
			if slices.ContainsFunc(list, func(o recipe.Registry) bool { return o.Host == u.Host && o.CA != "" }) {
				c.diags.warn(at[i].atIndex("mirrors", n), "CA of a mirror missing", "The CA of registry %q counts for images that name it. As a mirror of %q it is not trusted, unless the machine trusts its CA. Give ca in this block, too.", u.Host, r.Host)
			}
		}
	}
}

package plan

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// runtimeSpecs are the container runtimes.
var runtimeSpecs = map[string]*eval.Spec{
	"containerd": {Name: "runtime", Doc: "containerd as a service", Attrs: []eval.Attr{
		{Name: "version", Typ: cty.String, Required: true, Doc: "its version"},
		pauseAttr,
		{Name: "crictl", Typ: cty.String, Doc: "version of crictl to install beside it, with its configuration; default none"},
	}, Blocks: []*eval.Spec{registrySpec}},
	"docker": {Name: "runtime", Doc: "Docker Engine as a service, for Kubernetes before 1.24", Attrs: dockerAttrs},
	"mcr":    {Name: "runtime", Doc: "Mirantis Container Runtime as a service, for Kubernetes before 1.24", Attrs: dockerAttrs},
}

var pauseAttr = eval.Attr{Name: "pause_image", Typ: cty.String, Doc: "sandbox image, default by OS and build"}

var dockerAttrs = []eval.Attr{
	{Name: "version", Typ: cty.String, Doc: "its version; needed unless installed"},
	pauseAttr,
	{Name: "installed", Typ: cty.Bool, Doc: "the machine has it, as the service \"docker\"; nodejoin only demands that it runs"},
	{Name: "config", Typ: cty.DynamicPseudoType, Doc: "fields of daemon.json, merged by key into what nodejoin writes; null removes a field"},
}

var registrySpec = &eval.Spec{Name: "registry", Labels: []string{"host"}, Doc: "where the images of one registry come from, as hosts.toml; containerd 1.5 and later", Attrs: []eval.Attr{
	{Name: "mirrors", Typ: eval.Strings, Doc: "addresses that are asked before the registry itself, in their order; of one with /v2/ in its path that is where its API begins (\"https://images.example/v2/k8s\")"},
	{Name: "ca", Typ: cty.String, Doc: "CA of the mirrors, or of the registry where there are none, in PEM: file(\"ca.pem\"); default that of the machine"},
}}

func (c *compiler) runtimeBlock(at *hcl.Block, k *cluster) {
	blocks := c.plan.blocks["runtime"]
	if len(blocks) == 0 {
		if !c.plan.lost["runtime"] {
			c.Fail(at.DefRange, "missing block", "Nodes of a cluster need a container runtime. Add: runtime \"containerd\" { version = \"2.2.1\" }.")
		}
		return
	}
	b := blocks[0]
	spec := c.Kind(rootBlock("runtime"), b)
	if spec == nil {
		return
	}
	s := c.Section(spec, b, c.Ctx)
	r := &k.base.Runtime
	*r = recipe.Runtime{Kind: b.Labels[0], Pause: s.Str("pause_image")}
	k.pauseAt = s.At("pause_image")
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
		s.Fail("version", "version not supported", "containerd %s cannot serve a kubelet on Windows; 1.4.0 is the first that can. Use a newer one.", r.Version)
		return
	case len(r.Registries) > 0 && !v.ConfigPath:
		s.Fail("version", "version not supported", "containerd %s reads no hosts.toml, which a registry block writes. Use 1.5 or newer, or remove the block.", r.Version)
	case v.Assumed != "":
		c.Warn(s.At("version"), "version newer than the tables", "%s.", v.Assumed)
	}
	if k.Version == "" {
		return
	}
	if v := compat.CheckContainerd(k.Version, r.Version); !v.Accepted() {
		s.Fail("version", "runtime not supported", "Kubernetes %s cannot use containerd %s: %s%s", k.Version, r.Version, v.Why, instead(v))
	} else if ok, known, want := compat.Tested(k.Version, r.Version); known && !ok {
		c.Warn(s.At("version"), "untested versions", "containerd %s is not tested with Kubernetes %s by its maintainers. These are, with their later patches: %s.", r.Version, k.Version, strings.Join(want, ", "))
	}
}

// docker reads a runtime of the kinds docker and mcr.
func (c *compiler) docker(s *eval.Section, kubernetes string, r *recipe.Runtime) {
	r.Installed = s.Bool("installed")
	for _, name := range []string{"version", "config"} {
		if r.Installed && s.Has(name) {
			s.Fail(name, "arguments exclude each other", "With installed = true nodejoin does not touch the machine's docker, so %q says nothing. Remove one of the two.", name)
		}
	}
	if !r.Installed && !s.Has("version") {
		c.Fail(s.Block.DefRange, "missing argument", "The %s block needs the argument \"version\": what is installed. Where the machine has it already, give installed = true.", s.Spec.Title(s.Block))
	}
	if text := s.Str("version"); text != "" {
		version, err := compat.ParseDocker(text)
		r.Version = version
		if err != nil {
			s.Fail("version", "invalid version", "%s. Write all three numbers, for example \"20.10.24\".", err)
		} else if v := compat.CheckDockerVersion(version); !v.Accepted() {
			s.Fail("version", "version not supported", "%s%s", v.Why, instead(v))
		}
	}
	r.Config = c.daemonConfig(s)
	if kubernetes == "" {
		return
	}
	switch v := compat.CheckDocker(kubernetes); v.Status {
	case compat.Removed:
		c.Fail(s.Block.LabelRanges[0], "runtime not supported", "Kubernetes %s cannot use %s: %s, and cri-dockerd, which would stand between, is not supported%s", kubernetes, r.Kind, v.Why, instead(v))
	case compat.Deprecated:
		c.Warn(s.Block.LabelRanges[0], "deprecated runtime", "%s%s", v.Why, instead(v))
	}
}

// daemonConfig reads the argument "config" of a docker.
func (c *compiler) daemonConfig(s *eval.Section) map[string]any {
	out := s.Object("config", "daemon.json is one")
	for _, name := range slices.Sorted(maps.Keys(out)) {
		why := map[string]string{"hosts": "it is the pipe on which the kubelet speaks to it"}[name]
		if why != "" {
			s.Fail("config", "field that nodejoin sets", "The field %q of daemon.json cannot be given here: %s.", name, why)
		}
	}
	return out
}

// registries reads the registry blocks of a containerd.
func (c *compiler) registries(s *eval.Section) []recipe.Registry {
	var out []recipe.Registry
	var sections []*eval.Section
	seen := map[string]bool{}
	for _, b := range s.Blocks.OfType("registry") {
		in := c.Section(registrySpec, b, c.Ctx)
		r := recipe.Registry{Host: b.Labels[0], Mirrors: in.Strs("mirrors"), CA: in.Str("ca")}
		switch {
		case !registryHost.MatchString(r.Host):
			c.Fail(b.LabelRanges[0], "invalid registry", "%q is no registry as images name it: a name or address in lower case, and a port if it has one, for example \"docker.io\" or \"registry.example:5000\".", r.Host)
		case seen[strings.ReplaceAll(r.Host, ":", "")]:
			c.Fail(b.DefRange, "duplicate block", "There is another registry block for %q. Remove one of them.", r.Host)
		case !in.Has("mirrors") && !in.Has("ca"):
			c.Fail(b.DefRange, "missing argument", "The registry block has neither \"mirrors\" nor \"ca\", so it says nothing. Give one of them, or remove it.")
		}
		seen[strings.ReplaceAll(r.Host, ":", "")] = true
		for i, m := range r.Mirrors {
			if !mirrorURL(m) {
				c.Fail(in.AtIndex("mirrors", i), "invalid URL", "%q is no http or https address of a registry. Write https://HOST:PORT.", m)
			}
		}
		if r.CA != "" && !certificates(r.CA) {
			in.Fail("ca", "invalid certificate", "The argument \"ca\" holds no certificate in PEM, or something beside. Give file(\"ca.pem\").")
		}
		out, sections = append(out, r), append(sections, in)
	}
	c.mirrorCAs(out, sections)
	return out
}

// mirrorCAs warns of a mirror whose own registry block has a CA and whose use as a mirror
// has none: containerd reads the file of the registry that an image names, and no other.
func (c *compiler) mirrorCAs(list []recipe.Registry, at []*eval.Section) {
	for i, r := range list {
		for n, m := range r.Mirrors {
			u, err := url.Parse(m)
			if err != nil || r.CA != "" || u.Scheme != "https" {
				continue
			}
			if slices.ContainsFunc(list, func(o recipe.Registry) bool { return o.Host == u.Host && o.CA != "" }) {
				c.Warn(at[i].AtIndex("mirrors", n), "CA of a mirror missing", "The CA of registry %q counts for images that name it. As a mirror of %q it is not trusted, unless the machine trusts its CA. Give ca in this block, too.", u.Host, r.Host)
			}
		}
	}
}

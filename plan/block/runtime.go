package block

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/plan/recipe"
)

// runtimeSpecs are the container runtimes.
var runtimeSpecs = map[string]*eval.Spec{
	"containerd": {Name: "runtime", Doc: "containerd as a service", Attrs: []eval.Attr{
		{Name: "version", Typ: cty.String, Required: true, Doc: "its version"},
		pauseAttr,
		{Name: "crictl", Typ: cty.String,
			Doc: "version of crictl to install beside it, with its configuration; default none"},
		{Name: "config", Typ: cty.DynamicPseudoType, Doc: "fields of config.toml, merged by key into what " +
			"nodejoin writes; null removes a field. They are those of the file that this version reads: schema 2 for " +
			"containerd 1.x, 3 for 2.0 to 2.2, 4 from 2.3 on"},
		{Name: keepAttr.Name, Typ: cty.Bool,
			Doc: "crictl and its configuration stay on the machine when the plan no longer has them"},
	}, Blocks: []*eval.Spec{registrySpec}},
	"docker": {Name: "runtime", Doc: "Docker Engine as a service, for Kubernetes before 1.24", Attrs: dockerAttrs},
	"mcr": {Name: "runtime", Doc: "Mirantis Container Runtime as a service, for Kubernetes before 1.24",
		Attrs: dockerAttrs},
}

var pauseAttr = eval.Attr{Name: "pause_image", Typ: cty.String, Doc: "sandbox image, default by OS and build"}

var dockerAttrs = []eval.Attr{
	{Name: "version", Typ: cty.String, Doc: "its version; needed unless installed"},
	pauseAttr,
	{Name: "installed", Typ: cty.Bool,
		Doc: "the machine has it, as the service \"docker\"; nodejoin only requires that it runs"},
	{Name: "config", Typ: cty.DynamicPseudoType,
		Doc: "fields of daemon.json, merged by key into what nodejoin writes; null removes a field"},
	{Name: keepAttr.Name, Typ: cty.Bool, Doc: "its data folder, C:\\ProgramData\\docker, with images and volumes " +
		"stays on the machine when the plan no longer has it"},
}

var registrySpec = &eval.Spec{Name: "registry", Labels: []string{"host"},
	Doc: "where the images of one registry come from, as hosts.toml; containerd 1.5 and later", Attrs: []eval.Attr{
		{Name: "mirrors", Typ: eval.Strings, Doc: "addresses that are tried before the registry itself, in order; if " +
			"one has /v2/ in its path, its API begins there (\"https://images.example/v2/k8s\")"},
		{Name: "ca", Typ: cty.String,
			Doc: "CA of the mirrors, or of the registry where there are none, in PEM: file(\"ca.pem\"); default that of the " +
				"machine"},
		{Name: "username", Typ: cty.String, Doc: "user that logs in at the mirrors, or at the registry where there are " +
			"none"},
		{Name: "password_env", Typ: cty.String, Doc: "environment variable of the controller that holds the user's " +
			"password or access token; it is kept on the machine, where only the system and administrators read it"},
		{Name: "token_file", Typ: cty.String, Doc: "file on the controller, relative to the plan, with a token that the " +
			"mirrors, or the registry, take as it is (Authorization: Bearer), instead of username and password"},
		{Name: "client_certificate", Typ: cty.String, Doc: "certificate with which containerd proves who it is to the " +
			"mirrors, or the registry, in PEM: file(\"client.pem\")"},
		{Name: "client_key_file", Typ: cty.String, Doc: "file on the controller, relative to the plan, with its key in PEM"},
		keepAttr,
	}}

// Runtime is the runtime block.
type Runtime struct {
	*eval.Section
	recipe.Runtime
}

// decodeRuntime reads a runtime block; root is the spec of all of them. nil when there is no such
// runtime, which was reported.
func decodeRuntime(sc *eval.Scope, root *eval.Spec, b *hcl.Block) *Runtime {
	spec := sc.Kind(root, b)
	if spec == nil {
		return nil
	}
	s := sc.Section(spec, b, sc.Ctx)
	r := &Runtime{Section: s, Runtime: recipe.Runtime{Kind: b.Labels[0], Pause: s.Str("pause_image")}}
	if r.Kind != "containerd" {
		decodeDocker(s, &r.Runtime)
		return r
	}
	r.Version, r.Crictl = version(s, "version"), version(s, "crictl")
	r.KeepCrictl = s.Bool(keepAttr.Name)
	r.Registries = registries(s, r.Version)
	r.Config = containerdConfig(s)
	if r.Version == "" {
		return r
	}
	v, err := compat.LookupContainerd(r.Version)
	switch {
	case err != nil:
	case !v.Supported:
		s.Fail("version", "version not supported",
			"containerd %s cannot serve a kubelet on Windows; 1.4.0 is the first that can. Use a newer one.", r.Version)
	case len(r.Registries) > 0 && !v.ConfigPath:
		s.Fail("version", "version not supported",
			"containerd %s reads no hosts.toml, which a registry block writes. Use 1.5 or newer, or remove the block.",
			r.Version)
	case v.Assumed != "":
		sc.Warn(s.At("version"), "version newer than the tables", "%s.", v.Assumed)
	}
	return r
}

// docker reads a runtime of the kinds docker and mcr.
func decodeDocker(s *eval.Section, r *recipe.Runtime) {
	r.Installed = s.Bool("installed")
	r.KeepData = s.Bool(keepAttr.Name)
	for _, name := range []string{"version", "config", keepAttr.Name} {
		if r.Installed && s.Has(name) {
			s.Fail(name, "arguments exclude each other",
				"With installed = true nodejoin does not touch the machine's docker, so %q has no effect. Remove one of the two.",
				name)
		}
	}
	if !r.Installed && !s.Has("version") {
		s.FailAt(s.Block.DefRange, "missing argument", "The %s block needs the argument \"version\": what is installed. "+
			"If the machine already has it, give installed = true.", s.Spec.Title(s.Block))
	}
	if text := s.Str("version"); text != "" {
		version, err := compat.ParseDocker(text)
		r.Version = version
		if err != nil {
			s.Fail("version", "invalid version", "%s. Write all three numbers, for example \"20.10.24\".", err)
		} else if v := compat.CheckDockerVersion(version); !v.Accepted() {
			s.Fail("version", "version not supported", "%s%s", v.Why, Instead(v))
		}
	}
	r.Config = daemonConfig(s)
}

// ownedContainerd are fields of config.toml that nodejoin writes and other steps rely on, each with its path.
var ownedContainerd = []struct {
	path []string
	why  string
}{
	{[]string{"version"}, "it is the schema of the file, which goes with the version of containerd"},
	{[]string{"root"}, byRecipe}, {[]string{"state"}, byRecipe}, {[]string{"imports"}, byRecipe},
	{[]string{"grpc", "address"}, byGate}, {[]string{"plugins", "io.containerd.server.v1.grpc", "address"}, byGate},
	{[]string{"plugins", "io.containerd.server.v1.ttrpc", "address"}, byGate},
	{[]string{"plugins", "io.containerd.grpc.v1.cri", "sandbox_image"}, byPause},
	{[]string{"plugins", "io.containerd.cri.v1.images", "pinned_images", "sandbox"}, byPause},
	{[]string{"plugins", "io.containerd.grpc.v1.cri", "cni", "bin_dir"}, byRecipe},
	{[]string{"plugins", "io.containerd.grpc.v1.cri", "cni", "conf_dir"}, byRecipe},
	{[]string{"plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dir"}, byRecipe},
	{[]string{"plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dirs"}, byRecipe},
	{[]string{"plugins", "io.containerd.cri.v1.runtime", "cni", "conf_dir"}, byRecipe},
	{[]string{"plugins", "io.containerd.grpc.v1.cri", "registry", "config_path"}, byRegistries},
	{[]string{"plugins", "io.containerd.cri.v1.images", "registry", "config_path"}, byRegistries},
}

const (
	byPause      = "give the argument \"pause_image\""
	byRegistries = "give registry blocks"
)

// containerdConfig reads the argument "config" of a containerd.
func containerdConfig(s *eval.Section) map[string]any {
	out := s.Object("config", "config.toml is one")
	for _, f := range ownedContainerd {
		if _, given := fieldOf(out, f.path); given {
			s.FailAt((&componentJudge{s: s}).at(f.path), "field that nodejoin sets",
				"The field %s of config.toml cannot be given here: %s.", strings.Join(f.path, " / "), f.why)
		}
	}
	if path := nullIn(out, nil); path != nil {
		s.FailAt((&componentJudge{s: s}).at(path), "wrong type",
			"The list %s of config.toml has an element that is null, which TOML does not have. Remove it.",
			strings.Join(path, " / "))
	}
	return out
}

// nullIn returns the path of a list with an element that is null, nil if there is none.
func nullIn(v any, path []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if at := nullIn(v[k], append(slices.Clone(path), k)); at != nil {
				return at
			}
		}
	case []any:
		for _, e := range v {
			if e == nil {
				return path
			}
			if at := nullIn(e, path); at != nil {
				return at
			}
		}
	}
	return nil
}

// daemonConfig reads the argument "config" of a docker.
func daemonConfig(s *eval.Section) map[string]any {
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
func registries(s *eval.Section, version string) []recipe.Registry {
	var out []recipe.Registry
	var sections []*eval.Section
	seen := map[string]bool{}
	for _, b := range s.Blocks.OfType("registry") {
		in := s.Scope.Section(registrySpec, b, s.Scope.Ctx)
		r := recipe.Registry{Host: b.Labels[0], Mirrors: in.Strs("mirrors"), CA: in.Str("ca"), Keep: in.Bool("keep")}
		switch {
		case !names.IsRegistryHost(r.Host):
			s.FailAt(b.LabelRanges[0], "invalid registry", "%q is not a registry as images name it: a name or address in "+
				"lower case, and a port if it has one, for example \"docker.io\" or \"registry.example:5000\".", r.Host)
		case seen[strings.ReplaceAll(r.Host, ":", "")]:
			s.FailAt(b.DefRange, "duplicate block", "There is another registry block for %q. Remove one of them.", r.Host)
		case len(in.Attrs) == 0 || len(in.Attrs) == 1 && in.Has(keepAttr.Name):
			s.FailAt(b.DefRange, "missing argument", "The registry block has no mirrors, no CA and no credentials, so it has "+
				"no effect. Give \"mirrors\", \"ca\" or \"username\", or remove it.")
		}
		seen[strings.ReplaceAll(r.Host, ":", "")] = true
		for i, m := range r.Mirrors {
			if !mirrorURL(m) {
				s.FailAt(in.AtIndex("mirrors", i), "invalid URL",
					"%q is not an http or https address of a registry. Write https://HOST:PORT.", m)
			}
		}
		if r.CA != "" && !certificates(r.CA) {
			in.Fail("ca", "invalid certificate",
				"The argument \"ca\" holds no certificate in PEM, or other content. Give file(\"ca.pem\").")
		}
		(&registryLogin{Section: in}).read(&r)
		s.OK = s.OK && in.OK
		out, sections = append(out, r), append(sections, in)
	}
	mirrorCAs(out, sections)
	oneLoginEach(out, sections, version)
	return out
}

// mirrorCAs warns of a mirror whose own registry block has a CA and whose use as a mirror
// has none: containerd reads the file of the registry that an image names, and no other.
func mirrorCAs(list []recipe.Registry, at []*eval.Section) {
	for i, r := range list {
		for n, m := range r.Mirrors {
			u, err := url.Parse(m)
			if err != nil || r.CA != "" || u.Scheme != "https" {
				continue
			}
			if slices.ContainsFunc(list, func(o recipe.Registry) bool { return o.Host == u.Host && o.CA != "" }) {
				at[i].Scope.Warn(at[i].AtIndex("mirrors", n), "CA of a mirror missing",
					"The CA of registry %q applies to images that name it. As a mirror of %q it is not trusted, unless the "+
						"machine trusts its CA. Give ca in this block, too.", u.Host, r.Host)
			}
		}
	}
}

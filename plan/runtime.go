package plan

import (
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
		{name: "pause_image", typ: cty.String, doc: "sandbox image, default by OS and version"},
	}},
}

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
	version := c.version(s, "version")
	k.base.Runtime = recipe.Runtime{Kind: "containerd", Version: version, Pause: s.str("pause_image")}
	k.pauseAt = s.at("pause_image")
	if version == "" {
		return
	}
	if v, err := compat.LookupContainerd(version); err == nil {
		switch {
		case !v.Supported:
			s.fail("version", "version not supported", "containerd %s does not serve CRI v1, which every kubelet since 1.26 requires. Use 1.6 or newer.", version)
		case v.Assumed != "":
			c.diags.warn(s.at("version"), "version newer than the tables", "%s.", v.Assumed)
		}
	}
	if k.Version != "" {
		if ok, known, want := compat.Tested(k.Version, version); known && !ok {
			c.diags.warn(s.at("version"), "untested versions", "containerd %s is not tested with Kubernetes %s by its maintainers. These are, with their later patches: %s.", version, k.Version, strings.Join(want, ", "))
		}
	}
}

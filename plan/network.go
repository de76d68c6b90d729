package plan

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/recipe"
)

// networkSpecs are the pod networks.
var networkSpecs = map[string]*blockSpec{
	"flannel": {name: "network", doc: "flannel as a service", attrs: []attrSpec{
		{name: "version", typ: cty.String, required: true, doc: "its version"},
		{name: "backend", typ: cty.String, doc: "\"vxlan\" (default)"},
		{name: "vni", typ: cty.Number, doc: "VXLAN network identifier, default 4096"},
		{name: "port", typ: cty.Number, doc: "VXLAN port, default 4789"},
	}},
}

const (
	defaultVNI       = 4096
	defaultVXLANPort = 4789
)

func (c *compiler) networkBlock(at *hcl.Block, k *cluster) {
	blocks := c.plan.blocks["network"]
	if len(blocks) == 0 {
		if !c.plan.lost["network"] {
			c.diags.fail(at.DefRange, "missing block", "Nodes of a cluster need a pod network. Add: network \"flannel\" { version = \"0.28.9\" }.")
		}
		return
	}
	b := blocks[0]
	spec := c.kind(rootBlock("network"), b)
	if spec == nil {
		return
	}
	s := c.section(spec, b, c.ctx)
	n := recipe.Network{Kind: "flannel", Version: c.version(s, "version"), Backend: s.or("backend", "vxlan")}
	if n.Backend != "" && n.Backend != "vxlan" {
		s.fail("backend", "unknown backend", "There is no backend %q in this version. There is \"vxlan\".", n.Backend)
	}
	// flannel on Windows: pkg/backend/vxlan/vxlan_windows.go refuses lower VNIs and
	// other ports; the VNI that it announces has 16 bits.
	vni := s.whole("vni", 1, 1<<24-1, defaultVNI)
	if vni < 4096 || vni > 1<<16-1 {
		s.fail("vni", "impossible VNI", "The VNI is %d. flannel on Windows needs one from 4096 to 65535, and all nodes of the cluster, Linux too, must have the same.", vni)
	}
	port := s.whole("port", 1, 65535, defaultVXLANPort)
	if port != defaultVXLANPort {
		s.fail("port", "impossible port", "The VXLAN port is %d. flannel on Windows can use 4789 only, and all nodes of the cluster, Linux too, must have the same.", port)
	}
	n.VNI, n.Port = uint32(vni), uint16(port)
	k.base.Network = n
}

package plan

import (
	"net/netip"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// networkSpecs are the pod networks.
var networkSpecs = map[string]*eval.Spec{
	"flannel": {Name: "network", Doc: "flannel as a service", Attrs: []eval.Attr{
		{Name: "version", Typ: cty.String, Required: true, Doc: "its version"},
		{Name: "backend", Typ: cty.String, Doc: "\"vxlan\" (default): an overlay; or \"host-gw\": routes between nodes of one link, on Windows an L2Bridge network"},
		{Name: "delegate", Typ: cty.String, Doc: "CNI plugin of the backend on Windows: \"win-overlay\" or \"sdnoverlay\" for vxlan, \"win-bridge\" or \"sdnbridge\" for host-gw; the first is the default"},
		{Name: "vni", Typ: cty.Number, Doc: "VXLAN network identifier, default 4096"},
		{Name: "port", Typ: cty.Number, Doc: "VXLAN port, default 4789"},
		{Name: "placeholder", Typ: cty.Bool, Doc: "true: on Windows an HNS network \"External\" comes before flannel's own and outlives boots, so that the adapter's switch is made once, when the join begins, and the connection is lost then only; default false"},
	}},
	"none": {Name: "network", Doc: "none from nodejoin: the cluster brings its CNI to a node in pods of its own; a node is joined once it is registered, and Ready when the CNI has come", Attrs: []eval.Attr{
		{Name: "ready", Typ: cty.Bool, Doc: "true: wait until the Node is Ready, for a CNI that comes without further doing"},
		{Name: "hns_network", Typ: cty.String, Doc: "name of the L2Bridge network that the CNI makes, for kube-proxy as a service; default: no kube-proxy, the cluster brings it too"},
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
			c.Fail(at.DefRange, "missing block", "Nodes of a cluster need a pod network. Add: network \"flannel\" { version = \"0.28.9\" }.")
		}
		return
	}
	b := blocks[0]
	spec := c.Kind(rootBlock("network"), b)
	if spec == nil {
		return
	}
	s := c.Section(spec, b, c.Ctx)
	switch b.Labels[0] {
	case "flannel":
		k.base.Network = c.flannel(s)
		c.flannelFamilies(k)
	case "none":
		k.base.Network = recipe.Network{Kind: "none", Ready: s.Bool("ready"), HNSNetwork: s.Str("hns_network")}
	}
}

func (c *compiler) flannel(s *eval.Section) recipe.Network {
	n := recipe.Network{Kind: "flannel", Version: c.version(s, "version"), Backend: s.StrOr("backend", recipe.VXLAN), Delegate: s.Str("delegate"), Placeholder: s.Bool("placeholder")}
	known := slices.Contains(recipe.Backends(), n.Backend)
	if n.Backend != "" && !known {
		s.Fail("backend", "unknown backend", "There is no backend %q. On Windows flannel has %q and %q.", n.Backend, recipe.VXLAN, recipe.HostGW)
	}
	if d := recipe.Delegates(n.Backend); known && n.Delegate != "" && !slices.Contains(d, n.Delegate) {
		s.Fail("delegate", "delegate of another backend", "The CNI plugin %q does not serve the backend %q. For it there is %s.", n.Delegate, n.Backend, eval.OneOf(d))
	}
	if n.Backend == recipe.HostGW {
		for _, name := range []string{"vni", "port"} {
			if s.Has(name) {
				s.Fail(name, "argument without effect", "The argument %q is of VXLAN, and the backend is %q, which has none. Remove it.", name, n.Backend)
			}
		}
		return n
	}
	// flannel on Windows: pkg/backend/vxlan/vxlan_windows.go refuses lower VNIs and
	// other ports; the VNI that it announces has 16 bits.
	vni := s.Int("vni", 1, 1<<24-1, defaultVNI)
	if vni < 4096 || vni > 1<<16-1 {
		s.Fail("vni", "impossible VNI", "The VNI is %d. flannel on Windows needs one from 4096 to 65535, and all nodes of the cluster, Linux too, must have the same.", vni)
	}
	port := s.Int("port", 1, 65535, defaultVXLANPort)
	if port != defaultVXLANPort {
		s.Fail("port", "impossible port", "The VXLAN port is %d. flannel on Windows can use 4789 only, and all nodes of the cluster, Linux too, must have the same.", port)
	}
	n.VNI, n.Port = uint32(vni), uint16(port)
	return n
}

// withoutProxy reports settings of a kube-proxy that the node does not get.
func (c *compiler) withoutProxy(s *eval.Section) {
	k := c.cluster
	if k == nil || k.base.Network.Kind != "none" || k.base.Network.HNSNetwork != "" {
		return
	}
	for _, b := range s.Blocks.OfType("kube_proxy") {
		s.OK = false
		c.Fail(b.DefRange, "block without effect", "The network block says that the cluster brings kube-proxy itself, so nodejoin installs none. Remove this block, or give hns_network in the network block.")
	}
}

// onOneLink reports a node that is known to lie apart from another: host-gw sends
// packets to the other node itself, and no router may be between them. The plan does
// not say how long the prefixes of the machines' networks are, so only addresses of
// different private blocks (RFC 1918), or of one and of none, are certain to lie apart.
func (c *compiler) onOneLink() {
	if c.cluster == nil || c.cluster.base.Network.Backend != recipe.HostGW {
		return
	}
	var before *machine
	for _, m := range c.machines {
		ip := m.address()
		if m.bad || !ip.IsValid() {
			continue
		}
		if before == nil {
			before = m
			continue
		}
		if privateBlock(ip) != privateBlock(before.address()) {
			c.FailOn(m.Name, m.at, "nodes on different links", "Node %q has the address %s and node %q has %s, which cannot be in one network. The backend \"host-gw\" routes from node to node without a router between them. Use the backend \"vxlan\", or nodes of one network.", m.Name, ip, before.Name, before.address())
			m.bad = true
		}
	}
}

// address is the machine's in the management network, where the plan says it.
func (m *machine) address() netip.Addr {
	text := m.managementIP
	if box := m.Connection.Sandbox; text == "" && box != nil {
		text = box.IP
	}
	ip, _ := netip.ParseAddr(text)
	return ip
}

// givenAddress is an address that the plan gives a machine, with its place.
type givenAddress struct {
	ip netip.Addr
	at hcl.Range
	of *machine
}

// given are all the addresses of the machine that the plan gives.
func (m *machine) given() (out []givenAddress) {
	if ip := m.address(); ip.IsValid() {
		out = append(out, givenAddress{ip, m.addressAt, m})
	}
	if ip, err := netip.ParseAddr(m.management6); err == nil {
		out = append(out, givenAddress{ip, m.address6At, m})
	}
	return out
}

// privateBlock is the block of RFC 1918 that holds the address, the zero Prefix when none does.
func privateBlock(ip netip.Addr) netip.Prefix {
	for _, p := range []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")} {
		if p.Contains(ip) {
			return p
		}
	}
	return netip.Prefix{}
}

package block

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
		{Name: "backend", Typ: cty.String, Doc: "\"vxlan\" (default): an overlay; or \"host-gw\": routes between nodes " +
			"of one link, on Windows an L2Bridge network"},
		{Name: "delegate", Typ: cty.String, Doc: "CNI plugin of the backend on Windows: \"win-overlay\" or " +
			"\"sdnoverlay\" for vxlan, \"win-bridge\" or \"sdnbridge\" for host-gw; the first is the default"},
		{Name: "vni", Typ: cty.Number, Doc: "VXLAN network identifier, default 4096"},
		{Name: "port", Typ: cty.Number, Doc: "VXLAN port, default 4789"},
		{Name: "placeholder", Typ: cty.Bool, Doc: "true: on Windows an HNS network \"External\" holds the adapter's " +
			"switch, so that the connection is lost once, when the join begins, and not when flannel's network is made or " +
			"replaced; default false"},
		{Name: keepAttr.Name, Typ: cty.Bool,
			Doc: "the placeholder stays on the machine when the plan no longer has it"},
	}},
	"none": {Name: "network", Doc: "none from nodejoin: the cluster brings its CNI to a node in pods of its own; a " +
		"node is joined once it is registered, and Ready when the CNI has come", Attrs: []eval.Attr{
		{Name: "ready", Typ: cty.Bool,
			Doc: "true: wait until the Node is Ready, for a CNI that is installed without further steps"},
		{Name: "hns_network", Typ: cty.String, Doc: "name of the L2Bridge network that the CNI makes, for kube-proxy as " +
			"a service; default: no kube-proxy, the cluster brings it too"},
	}},
}

const (
	defaultVNI       = 4096
	defaultVXLANPort = 4789
)

// network is the network block.
type network struct {
	*eval.Section
	recipe.Network
}

// decodeNetwork reads a network block; root is the spec of all of them. nil when there is no such
// network, which was reported.
func decodeNetwork(sc *eval.Scope, root *eval.Spec, b *hcl.Block) *network {
	spec := sc.Kind(root, b)
	if spec == nil {
		return nil
	}
	n := &network{Section: sc.Section(spec, b, sc.Ctx)}
	switch b.Labels[0] {
	case "flannel":
		n.Network = decodeFlannel(n.Section)
	case "none":
		n.Network = recipe.Network{Kind: "none", Ready: n.Bool("ready"), HNSNetwork: n.Str("hns_network")}
	}
	return n
}

func decodeFlannel(s *eval.Section) recipe.Network {
	n := recipe.Network{Kind: "flannel", Version: version(s, "version"), Backend: s.StrOr("backend", recipe.VXLAN),
		Delegate: s.Str("delegate"), Placeholder: s.Bool("placeholder"), KeepPlaceholder: s.Bool(keepAttr.Name)}
	known := slices.Contains(recipe.Backends(), n.Backend)
	if n.Backend != "" && !known {
		s.Fail("backend", "unknown backend", "There is no backend %q. On Windows flannel has %q and %q.", n.Backend,
			recipe.VXLAN, recipe.HostGW)
	}
	if d := recipe.Delegates(n.Backend); known && n.Delegate != "" && !slices.Contains(d, n.Delegate) {
		s.Fail("delegate", "delegate of another backend",
			"The CNI plugin %q does not serve the backend %q. For it there is %s.", n.Delegate, n.Backend, eval.OneOf(d))
	}
	if n.Backend == recipe.HostGW {
		for _, name := range []string{"vni", "port"} {
			if s.Has(name) {
				s.Fail(name, "argument without effect",
					"The argument %q is of VXLAN, and the backend is %q, which has none. Remove it.", name, n.Backend)
			}
		}
		return n
	}
	// flannel on Windows: pkg/backend/vxlan/vxlan_windows.go refuses lower VNIs and
	// other ports; the VNI that it announces has 16 bits.
	vni := s.Int("vni", 1, 1<<24-1, defaultVNI)
	if vni < 4096 || vni > 1<<16-1 {
		s.Fail("vni", "impossible VNI", "The VNI is %d. flannel on Windows needs one from 4096 to 65535, and all nodes "+
			"of the cluster, Linux too, must have the same.", vni)
	}
	port := s.Int("port", 1, 65535, defaultVXLANPort)
	if port != defaultVXLANPort {
		s.Fail("port", "impossible port", "The VXLAN port is %d. flannel on Windows can use 4789 only, and all nodes of "+
			"the cluster, Linux too, must have the same.", port)
	}
	n.VNI, n.Port = uint32(vni), uint16(port)
	return n
}

// PrivateBlock returns the RFC 1918 block that contains the address; the zero Prefix if none
// does.
func PrivateBlock(ip netip.Addr) netip.Prefix {
	for _, p := range []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16")} {
		if p.Contains(ip) {
			return p
		}
	}
	return netip.Prefix{}
}

package recipe

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/templates"
)

// Network is the pod network.
type Network struct {
	Kind string // "flannel"; "none": the cluster brings it in pods of its own

	// Of flannel.
	Version  string // "0.28.9"
	Backend  string // "vxlan" or "host-gw"
	Delegate string // CNI plugin to which flannel's hands over; "" = the first of Delegates
	VNI      uint32 // of vxlan, 4096
	Port     uint16 // of vxlan, 4789
	// Placeholder: on Windows the switch is made before flanneld is there, by a network
	// that outlives boots.
	Placeholder bool

	// Of none.
	HNSNetwork string // L2Bridge network that the CNI makes, for a kube-proxy of ours; "" = no kube-proxy
	Ready      bool   // wait until the Node is Ready
}

// Bounds of a VXLAN network identifier on Windows. The lower one is flannel's
// (pkg/backend/vxlan/vxlan_windows.go, defaultVNI); the upper one is that of the
// 16 bits to which it cuts the VNI that it announces to other nodes (newSubnetAttrs).
const (
	minVNI = 4096
	maxVNI = 1<<16 - 1
)

// vxlanPort is the only port that flannel takes on Windows (vxlan_windows.go).
const vxlanPort = 4789

// bridgeName is the HNS network of the backend host-gw: flannel's default
// (pkg/backend/hostgw/hostgw_windows.go).
const bridgeName = "cbr0"

// Backends of flannel on Windows.
const (
	VXLAN  = "vxlan"   // an HNS network of type Overlay
	HostGW = "host-gw" // an HNS network of type L2Bridge, and routes to the other nodes
)

// Backends lists them, the default first.
func Backends() []string { return []string{VXLAN, HostGW} }

// Delegates are the CNI plugins that serve a backend, the default first: those of
// containernetworking/plugins and of microsoft/windows-container-networking.
func Delegates(backend string) []string {
	switch backend {
	case VXLAN:
		return []string{"win-overlay", "sdnoverlay"}
	case HostGW:
		return []string{"win-bridge", "sdnbridge"}
	}
	return nil
}

func (n Network) delegate() string {
	if n.Delegate == "" && len(Delegates(n.Backend)) > 0 {
		return Delegates(n.Backend)[0]
	}
	return n.Delegate
}

// sdn tells whether the delegate is one of microsoft/windows-container-networking.
func (n Network) sdn() bool { return n.delegate() == "sdnoverlay" || n.delegate() == "sdnbridge" }

func checkNetwork(in Input) error {
	n := in.Network
	refuse := func(why string, args ...any) error { return &UnsupportedError{"network", fmt.Sprintf(why, args...)} }
	switch n.Kind {
	case "none":
		return nil
	case "flannel":
	default:
		return refuse("%q is not known; flannel and none are", n.Kind)
	}
	switch {
	case !slices.Contains(Backends(), n.Backend):
		return refuse("the flannel backend %q is not known; vxlan and host-gw are", n.Backend)
	case !slices.Contains(Delegates(n.Backend), n.delegate()):
		return refuse("the CNI plugin %q does not serve the backend %s", n.Delegate, n.Backend)
	case n.Backend == HostGW:
		return nil
	case n.VNI < minVNI || n.VNI > maxVNI:
		return refuse("flannel on Windows needs a VNI from %d to %d, not %d, and the same one on every node", minVNI, maxVNI, n.VNI)
	case n.Port != vxlanPort:
		return refuse("flannel on Windows can use port %d only, not %d", vxlanPort, n.Port)
	}
	return nil
}

// networkArtifacts names the artifacts of the pod network.
func networkArtifacts(in Input) []string {
	if in.Network.Kind == "none" {
		return nil
	}
	names := []string{AgentArtifact, compat.CNIPlugins, compat.FlannelCNI, compat.Flanneld} // the agent runs flanneld
	if in.Network.sdn() {
		names = append(names, compat.SDNCNI)
	}
	return names
}

// netConfOf is what flanneld reads: the same on all nodes of the cluster.
func netConfOf(in Input) templates.NetConf {
	return templates.NetConf{Network: in.PodCIDR, Backend: in.Network.Backend, VNI: in.Network.VNI, Port: in.Network.Port, Name: bridgeName}
}

// networkName is the HNS network that kube-proxy and the CNI configuration name:
// the one that flanneld makes, or what the plan says that another CNI makes.
func (b *build) networkName() string {
	switch n := b.in.Network; {
	case n.Kind == "none":
		return n.HNSNetwork
	case n.Backend == HostGW:
		return bridgeName
	default:
		return fmt.Sprintf("flannel.%d", n.VNI)
	}
}

// kubeProxy tells whether the node gets a kube-proxy.
func (b *build) kubeProxy() bool { return b.in.Network.Kind != "none" || b.in.Network.HNSNetwork != "" }

// dualStack tells whether pods and services are of both families.
func (b *build) dualStack() bool { return strings.Contains(b.in.PodCIDR, ",") }

// familyGates are the feature gates without which kubelet and kube-proxy of the version
// know one family only.
func (b *build) familyGates() []string {
	if b.dualStack() && b.kubernetes.DualStackGate {
		return []string{"IPv6DualStack"}
	}
	return nil
}

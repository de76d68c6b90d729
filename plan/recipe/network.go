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
	Kind string // "flannel", or "none": the cluster's own pods set it up

	// Of flannel.
	Version  string // "0.28.9"
	Backend  string // "vxlan" or "host-gw"
	Delegate string // CNI plugin that flannel's delegates to; "" = the first of Delegates
	VNI      uint32 // of vxlan, 4096
	Port     uint16 // of vxlan, 4789
	// Placeholder: on Windows a network that survives reboots creates the virtual switch before flanneld starts.
	Placeholder     bool
	KeepPlaceholder bool // it stays when the plan no longer has it

	// Of none.
	HNSNetwork string // L2Bridge network that the CNI creates, for nodejoin's kube-proxy; "" = no kube-proxy
	Ready      bool   // wait until the Node is Ready
}

// Bounds of a VXLAN network identifier on Windows. The lower one is flannel's
// (pkg/backend/vxlan/vxlan_windows.go, defaultVNI); the upper one follows from the 16 bits to which it
// truncates the VNI that it announces to other nodes (newSubnetAttrs).
const (
	minVNI = 4096
	maxVNI = 1<<16 - 1
)

// vxlanPort is the only port that flannel accepts on Windows (vxlan_windows.go).
const vxlanPort = 4789

// bridgeName is the HNS network of the backend host-gw: flannel's default
// (pkg/backend/hostgw/hostgw_windows.go).
const bridgeName = "cbr0"

// Backends of flannel on Windows.
const (
	VXLAN  = "vxlan"   // an HNS network of type Overlay
	HostGW = "host-gw" // an HNS network of type L2Bridge, and routes to the other nodes
)

// Backends returns them, the default first.
func Backends() []string { return []string{VXLAN, HostGW} }

// Delegates returns the CNI plugins that support a backend, the default first: those of
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

// sdn reports whether the delegate is one of microsoft/windows-container-networking.
func (n Network) sdn() bool { return n.delegate() == "sdnoverlay" || n.delegate() == "sdnbridge" }

func checkNetwork(in Input) error {
	n := in.Network
	refuse := func(why string, args ...any) error { return &UnsupportedError{"network", fmt.Sprintf(why, args...)} }
	switch n.Kind {
	case "none":
		return nil
	case "flannel":
	default:
		return refuse("unknown network %q; use flannel or none", n.Kind)
	}
	switch {
	case !slices.Contains(Backends(), n.Backend):
		return refuse("unknown flannel backend %q; use vxlan or host-gw", n.Backend)
	case !slices.Contains(Delegates(n.Backend), n.delegate()):
		return refuse("the CNI plugin %q does not support the backend %s", n.Delegate, n.Backend)
	case n.Backend == HostGW:
		return nil
	case n.VNI < minVNI || n.VNI > maxVNI:
		return refuse("flannel on Windows needs a VNI from %d to %d, not %d, the same on every node", minVNI, maxVNI, n.VNI)
	case n.Port != vxlanPort:
		return refuse("flannel on Windows can use port %d only, not %d", vxlanPort, n.Port)
	}
	return nil
}

// networkArtifacts returns the names of the pod network's artifacts.
func networkArtifacts(in Input) []string {
	if in.Network.Kind == "none" {
		if in.OS == "windows" { // whose boot service is the agent
			return []string{AgentArtifact}
		}
		return nil
	}
	names := []string{AgentArtifact, compat.CNIPlugins, compat.FlannelCNI, compat.Flanneld} // the agent runs flanneld
	if in.Network.sdn() {
		names = append(names, compat.SDNCNI)
	}
	return names
}

// netConfOf returns flanneld's configuration, which is the same on all nodes of the cluster.
func netConfOf(in Input) templates.NetConf {
	return templates.NetConf{Network: in.PodCIDR, Backend: in.Network.Backend, VNI: in.Network.VNI, Port: in.Network.Port,
		Name: bridgeName}
}

// networkName is the HNS network that kube-proxy and the CNI configuration name: the one that flanneld
// creates, or the one that the plan says another CNI creates.
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

// kubeProxy reports whether the node gets a kube-proxy.
func (b *build) kubeProxy() bool { return b.in.Network.Kind != "none" || b.in.Network.HNSNetwork != "" }

// dualStack reports whether pods and services use both IP families.
func (b *build) dualStack() bool { return strings.Contains(b.in.PodCIDR, ",") }

// familyGates returns the feature gates without which kubelet and kube-proxy of the version support one IP
// family only.
func (b *build) familyGates() []string {
	if b.dualStack() && b.kubernetes.DualStackGate {
		return []string{"IPv6DualStack"}
	}
	return nil
}

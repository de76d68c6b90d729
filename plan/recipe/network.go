package recipe

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

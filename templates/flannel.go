package templates

// NetConf is flanneld's net-conf.json (flannel, Documentation/backends.md). Every
// node of a cluster must have the same backend, VNI and port.
type NetConf struct {
	Network string // pod network of the cluster
	Backend string // "vxlan" or "host-gw"
	VNI     uint32 // of vxlan
	Port    uint16 // of vxlan
	Name    string // of host-gw: the HNS network that flanneld creates
}

// Render returns the file's text.
func (n NetConf) Render() (string, error) { return render("net-conf.json", n) }

// CNI is the CNI configuration of flannel on Windows, which delegates to Delegate. DNS comes from the pod by
// capability. Its version of the CNI specification is that of flannel's own, 0.3.1, which every runtime and
// older plugins support.
//
// Sources: containernetworking/plugins pkg/hns/netconf_windows.go and the samples of win-bridge and
// win-overlay; microsoft/windows-container-networking cni/cni.go and its examples.
type CNI struct {
	Network    string // name of the HNS network: the one that flanneld creates
	Delegate   string // win-overlay, win-bridge, sdnoverlay or sdnbridge
	SubnetFile string // written by flanneld
	DataDir    string // state of the flannel plugin

	PodCIDR     string // of the cluster; not NATed
	ServiceCIDR string // not NATed, and encapsulated by the host
	NodeIP      string // overlay: its provider address; bridge: encapsulated by the host
	NodeSubnet  string // bridge: network of the node's address; not NATed

	// HNSv1: the first HNS API, for dockershim. Not with a delegate of windows-container-networking.
	HNSv1 bool
	// LoopbackDSR lets a pod reach itself through a service, if kube-proxy uses direct server return.
	LoopbackDSR bool
}

// Overlay reports whether the delegate creates an overlay network.
func (c CNI) Overlay() bool { return c.Delegate == "win-overlay" || c.Delegate == "sdnoverlay" }

// SDN reports whether the delegate is one of windows-container-networking. Those return results of CNI 0.2.0
// and name their policies and flags differently.
func (c CNI) SDN() bool { return c.Delegate == "sdnoverlay" || c.Delegate == "sdnbridge" }

// Render returns the file's text.
func (c CNI) Render() (string, error) { return render("cni.conflist", c) }

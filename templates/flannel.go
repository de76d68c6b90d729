package templates

// NetConf is flanneld's net-conf.json with a vxlan backend
// (flannel pkg/backend/vxlan/vxlan_windows.go). Every node of a cluster must
// have the same VNI and port.
type NetConf struct {
	Network string // pod network of the cluster
	VNI     uint32
	Port    uint16
}

// Render gives the file's text.
func (n NetConf) Render() (string, error) { return render("net-conf.json", n) }

// CNI is the CNI configuration of a flannel overlay network on Windows, with HNS
// v2 policies, which containerd needs. DNS comes from the pod by capability.
type CNI struct {
	Network     string // name of the HNS network: must be the one that flanneld makes
	SubnetFile  string // that flanneld writes
	DataDir     string // state of the flannel plugin
	PodCIDR     string // of the cluster; not translated
	ServiceCIDR string // not translated, and encapsulated by the host
	NodeIP      string // provider address of the overlay
}

// Render gives the file's text.
func (c CNI) Render() (string, error) { return render("cni.conflist", c) }

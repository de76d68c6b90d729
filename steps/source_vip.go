package steps

var sourceVIPKind = Kind{Name: "source_vip", Place: OnHost, Doc: "an address of the node's pod network, reserved in the host-local store for kube-proxy", Outputs: []string{"address"},
	New: func() any { return &SourceVIP{} }}

// SourceVIP is a reservation in the store of the host-local IPAM plugin
// (containernetworking/plugins, plugins/ipam/host-local/backend/disk). Outputs: address.
// A reservation of ours outside Subnet, left by an earlier join, is removed.
type SourceVIP struct {
	Dir       string `json:"dir" doc:"dataDir of host-local, for example C:\\var\\lib\\cni\\networks"`
	Network   string `json:"network" doc:"name of the CNI network, for example flannel.4096"`
	Subnet    string `json:"subnet" doc:"the node's pod CIDR"`
	Container string `json:"container,omitempty" doc:"holder of the reservation, default kube-proxy"`
	Interface string `json:"interface,omitempty" doc:"interface of the reservation, default source-vip"`
}

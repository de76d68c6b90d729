// Package recipe expands a node of a plan into the step specs that make it a Kubernetes node. There is one
// recipe for each kind of node (Windows with flannel and containerd, ...). High-level blocks are sugar:
// everything that a recipe produces could be written by hand in `step` blocks.
package recipe

import (
	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// Input is everything that a recipe needs to know about one node.
type Input struct {
	Node    string // name of the Node object
	OS      string // "windows" or "linux"
	Arch    string // "amd64" or "arm64"
	DataDir string // nodejoin's own folder on the host
	Sandbox bool   // the host is a sandbox
	SSHPort int    // by which nodejoin reaches it over SSH; 0 = otherwise
	// Build is the minimum Windows build of the machine; "" = that of the version tables.
	Build string
	// ManagementIP of the node; "" = the host's fact.
	ManagementIP string
	// ManagementIP6 is the node's IPv6 address, "" = none. With it, PodCIDR holds both families.
	ManagementIP6 string

	Cluster     string // name of the plan's cluster block
	Kubernetes  string // version, "1.36.3"
	APIServer   string // URL that the node connects to
	PodCIDR     string // of the whole cluster; for both families "IPV4,IPV6", as kubeadm takes them
	ServiceCIDR string
	DNSIP       string
	DNSDomain   string // "cluster.local"

	Join    Join
	Runtime Runtime
	Network Network

	Taints  []kube.Taint
	Labels  map[string]string
	MaxPods int // 0 = the kubelet's default

	// The plan's additions to what a recipe writes.
	Kubelet   Component
	KubeProxy Component

	// Waive holds the ids of preflight findings to ignore.
	Waive []string

	// Settings of the machine.
	Settings Settings

	// Artifacts by name: kubernetes_node, containerd, cni_plugins, flannel_cni,
	// flanneld, agent. Each has its digest.
	Artifacts map[string]steps.Source

	// Manifests are the same for all nodes of a plan and therefore not part of ShapeKey.
	Manifests []Manifest `json:"-"`

	Source string // position of the node block, "plan.join.hcl:12,3"
}

// Component is what a plan sets for the kubelet or for kube-proxy.
type Component struct {
	// Config is merged by key into the program's configuration file (see Merge). The plan rejects fields that
	// other steps depend on.
	Config map[string]any
	// Args are appended to the program's command line.
	Args []string
	// Off: the recipe does not install the program. It applies to kube-proxy on Linux.
	Off bool
}

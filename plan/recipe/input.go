// Package recipe expands a node of a plan into the step specs that make it a
// Kubernetes node. There is one recipe for each kind of node (windows with
// flannel and containerd, ...). High-level blocks are sugar: everything that a
// recipe gives could be written by hand in `step` blocks.
package recipe

import (
	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// Input is everything that a recipe needs to know of one node.
type Input struct {
	Node    string // name of the Node object
	OS      string // "windows" or "linux"
	Arch    string // "amd64" or "arm64"
	DataDir string // nodejoin's own folder on the host
	Sandbox bool   // the host is a sandbox
	// Build is the Windows build that the machine has at least; "" = that of the tables.
	Build string
	// ManagementIP of the node; "" = the host's fact.
	ManagementIP string
	// ManagementIP6 is its address of IPv6, "" = none. PodCIDR is of both families then.
	ManagementIP6 string

	Cluster     string // name of the plan's cluster block
	Kubernetes  string // version, "1.36.3"
	APIServer   string // URL that the node uses
	PodCIDR     string // of the whole cluster; of both families "IPV4,IPV6", as kubeadm takes them
	ServiceCIDR string
	DNSIP       string
	DNSDomain   string // "cluster.local"

	Join    Join
	Runtime Runtime
	Network Network

	Taints  []kube.Taint
	Labels  map[string]string
	MaxPods int // 0 = kubelet's default

	// What the plan says on top of what a recipe writes.
	Kubelet   Component
	KubeProxy Component

	// Waive are the ids of findings of the machine that do not count.
	Waive []string

	// Settings of the machine.
	Settings Settings

	// Artifacts by name: kubernetes_node, containerd, cni_plugins, flannel_cni,
	// flanneld, agent. Each has its digest.
	Artifacts map[string]steps.Source

	// Manifests are the same for all nodes of a plan, so that they are no part of ShapeKey.
	Manifests []Manifest `json:"-"`

	Source string // "plan.join.hcl:12,3" of the node block
}

// Component is what a plan says of the kubelet or of kube-proxy.
type Component struct {
	// Config is merged by key into the program's configuration file (see Merge).
	// Fields that other steps depend on are the plan's to refuse.
	Config map[string]any
	// Args are appended to the program's command line.
	Args []string
	// Off: the recipe installs none. It counts for kube-proxy on Linux.
	Off bool
}

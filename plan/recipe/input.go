// Package recipe expands a node of a plan into the step specs that make it a Kubernetes node. There is one
// recipe for each kind of node (Windows with flannel and containerd, ...). High-level blocks are sugar:
// everything that a recipe produces could be written by hand in `step` blocks.
package recipe

import (
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
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
	// WinRMPort is by which nodejoin reaches it over WinRM; 0 = otherwise.
	WinRMPort int
	// SSHKey is the public key for an SSH server that the machine gets; "" = it gets none.
	SSHKey string
	// Build is the minimum Windows build of the machine; "" = that of the version tables.
	Build string
	// ManagementIP of the node; "" = the host's fact.
	ManagementIP string
	// Interface is the adapter whose address is the host's fact; "" = that of the default route.
	Interface string
	// ManagementIP6 is the node's IPv6 address, "" = none. With it, PodCIDR holds both families.
	ManagementIP6 string

	Plan        string // its name, as steps.PlanName makes it
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

	// Bundled are images that the runtime imports before the kubelet starts.
	Bundled []BundledImage

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

// Join is the way the kubelet gets its first credentials.
type Join struct {
	Kind string        // one of JoinKinds
	TTL  time.Duration // of the token; 0 = the default of its step

	// Kubeconfig is the text of the kubelet's kubeconfig, with all credentials inline (kind kubeconfig).
	Kubeconfig string
	// Certificate reports whether Kubeconfig holds a client certificate rather than a token.
	Certificate bool

	// IgnorePreflightErrors are names of kubeadm checks (kind kubeadm).
	IgnorePreflightErrors []string
}

// JoinKinds lists the ways to join that have a recipe.
var JoinKinds = []string{"bootstrap_token", "kubeadm", "kubeconfig"}

// Runtime is the container runtime.
type Runtime struct {
	Kind    string // "containerd", "docker" or "mcr" (Mirantis' docker)
	Version string // "2.2.1"; "" if already installed
	Pause   string // pause image; "" = by OS and build
	Crictl  string // version of crictl beside containerd; "" = none
	// KeepCrictl: it stays when the plan no longer has it.
	KeepCrictl bool
	// KeepData: the data folder of docker stays when the plan no longer has docker.
	KeepData bool
	// Registries, in the order of the plan; containerd only.
	Registries []Registry
	// Installed: docker is already a service of the machine and nodejoin does not touch it.
	Installed bool
	// Config is merged by key into the runtime's own file: config.toml of containerd, daemon.json of docker.
	Config map[string]any
}

// Registry says where the images of one registry come from.
type Registry struct {
	Host    string   // as images name it, "docker.io" or "registry.example:5000"
	Mirrors []string // URLs that are tried before it
	CA      string   // PEM, for the mirrors, or for the registry itself if it has none; "" = the machine's

	// Credentials for the mirrors, or for the registry itself if it has none; "" = none. Token excludes the user.
	Username, Password string
	Token              string // as the registry takes it
	Certificate, Key   string // of a client, in PEM

	Keep bool // its files stay when the plan no longer has it
}

// Manifest is a file of objects for the cluster. It is the same for all nodes of a plan, and each node
// applies it.
type Manifest struct {
	Name     string // "flannel"; its step is manifest_flannel
	Title    string
	Content  string
	Existing bool // see steps.Manifest
	Force    bool
	Keep     bool   // the objects stay when the plan no longer has them
	Source   string // position of the block that asks for it, "plan.join.hcl:12,3"
}

// ID returns the id of its step.
func (m Manifest) ID() string { return "manifest_" + m.Name }

// Step returns the arguments of its step.
func (m Manifest) Step() *kinds.Manifest {
	return &kinds.Manifest{Content: m.Content, Existing: m.Existing, Force: m.Force}
}

// MissingArtifactError reports an artifact that a recipe needs and the plan does not give.
type MissingArtifactError struct{ Name string }

func (e *MissingArtifactError) Error() string {
	return fmt.Sprintf("the artifact %q is needed and the plan does not give it", e.Name)
}

// UnsupportedError reports a plan that no recipe can serve.
type UnsupportedError struct {
	What string // "network", "runtime", "cluster" or "node": the block at fault
	Why  string
}

func (e *UnsupportedError) Error() string { return e.What + ": " + e.Why }

package components

// Runc is pinned by its module.
const Runc = "1.5.2"

// linuxNode lists the programs of a Linux node. What the control plane and the Windows
// node have compiled of their modules is compiled again for Linux in part only.
var linuxNode = []component{
	{"kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet", stampKubernetes},
	{"kube-proxy", "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", stampKubernetes},
	{"kubelet-1.35", "kubernetes-1.35", "k8s.io/kubernetes/cmd/kubelet", stampOldKubernetes},
	{"kube-proxy-1.35", "kubernetes-1.35", "k8s.io/kubernetes/cmd/kube-proxy", stampOldKubernetes},
	{"kubeadm-1.35", "kubernetes-1.35", "k8s.io/kubernetes/cmd/kubeadm", stampOldKubernetes},
	{"containerd", "containerd", "github.com/containerd/containerd/v2/cmd/containerd", stampContainerd},
	{"ctr", "containerd", "github.com/containerd/containerd/v2/cmd/ctr", stampContainerd},
	{"containerd-shim-runc-v2", "containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		stampContainerd},
	{"runc", "runc", "github.com/opencontainers/runc", strip},
	{"host-local", "cni-plugins", "github.com/containernetworking/plugins/plugins/ipam/host-local", strip},
	{"bridge", "cni-plugins", "github.com/containernetworking/plugins/plugins/main/bridge", strip},
	{"loopback", "cni-plugins", "github.com/containernetworking/plugins/plugins/main/loopback", strip},
	{"portmap", "cni-plugins", "github.com/containernetworking/plugins/plugins/meta/portmap", strip},
	{"flannel", "cni-plugin-flannel", "github.com/containernetworking/plugins/plugins/meta/flannel", strip},
	{"flanneld", "flannel", "github.com/flannel-io/flannel", stampFlannel},
	{"containerd-1.7", "containerd-1.7", "github.com/containerd/containerd/cmd/containerd", stampContainerd17},
	{"ecr-credential-provider", "ecr-credential-provider",
		"k8s.io/cloud-provider-aws/cmd/ecr-credential-provider", stampECR},
	{"registry", "distribution", "github.com/distribution/distribution/v3/cmd/registry", strip},
}

// partlyC are programs that need a C compiler, with their build tags: runc for its first
// steps in a container and for seccomp, without which no pod starts (it links
// libseccomp), flanneld for its backend udp.
var partlyC = map[string]string{"runc": "seccomp", "flanneld": ""}

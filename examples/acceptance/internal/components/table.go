package components

// Versions that are known to build together. The modules below pin them; these
// names only label the archives of the mirror and the plan of the tests.
const (
	Kubernetes = "1.36.3"
	// OldKubernetes is an older minor version, of the node programs and kubeadm only.
	OldKubernetes = "1.35.4"
	// OldestKubeadm is the last kubeadm that reads no JoinConfiguration of v1beta4, and the first that nodejoin uses.
	OldestKubeadm = "1.30.14"
	// NewKubernetes is a newer one, of the API server too.
	NewKubernetes = "1.37.2"
	Containerd    = "2.4.2"
	// Containerd17 is the last line of 1.x, whose configuration has another shape.
	Containerd17 = "1.7.35"
	CNIPlugins   = "1.9.1"
	Flannel      = "0.28.4"
	// FlannelCNI is the last release of the CNI plugins that carried the flannel
	// meta plugin; its successor is not a Go module that builds by itself.
	FlannelCNI = "0.9.1"
	Crictl     = "1.36.0"
	CSIProxy   = "1.1.3"
	// WindowsExporter is the newest one that can be had as a Go module.
	WindowsExporter = "0.27.2"
	// Conftest judges plans by the policies of examples/policies.
	Conftest = "0.71.1"
	// ECRProvider is the credential provider of Amazon ECR.
	ECRProvider = "1.36.2"
	// NSSM is the version that the stand-in nssm stands in for.
	NSSM = "2.24"
	// SDNCNI labels the archive of windows-container-networking, whose programs a
	// stand-in plays.
	SDNCNI = "0.3.1"
)

// component is one program, built from a package of one of the modules below
// components/modules. Each module has its own pins: their requirements exclude
// one another, and none of them belongs into the product's module.
type component struct {
	name    string // file name in bin, with .exe for Windows
	module  string // folder below components/modules
	pkg     string
	ldflags string
}

// stampKubernetes sets the version of the Kubernetes programs; a build from the module alone calls itself
// v0.0.0-master, which the API server and kubelet refuse to compare.
const stampKubernetes = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v" + Kubernetes +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=36" +
	" -X k8s.io/component-base/version.gitCommit=module" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// stampOldKubernetes is stampKubernetes of OldKubernetes.
const stampOldKubernetes = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v" + OldKubernetes +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=35" +
	" -X k8s.io/component-base/version.gitCommit=module" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// stampOldestKubeadm is stampKubernetes of OldestKubeadm.
const stampOldestKubeadm = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v" + OldestKubeadm +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=30" +
	" -X k8s.io/component-base/version.gitCommit=module" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// stampNewKubernetes is stampKubernetes of NewKubernetes.
const stampNewKubernetes = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v" + NewKubernetes +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/component-base/version.gitCommit=module" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

const (
	stampContainerd = "-s -w -X github.com/containerd/containerd/v2/version.Version=v" + Containerd
	// 1.x has its version in another package.
	stampContainerd17 = "-s -w -X github.com/containerd/containerd/version.Version=v" + Containerd17
	stampFlannel      = "-s -w -X github.com/flannel-io/flannel/pkg/version.Version=v" + Flannel
	stampCrictl       = "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=v" + Crictl
	stampCSIProxy     = "-s -w -X main.version=v" + CSIProxy
	stampExporter     = "-s -w -X github.com/prometheus/common/version.Version=" + WindowsExporter
	stampConftest     = "-s -w -X github.com/open-policy-agent/conftest/internal/version.Version=" + Conftest
	stampECR          = "-s -w -X main.gitVersion=v" + ECRProvider
	strip             = "-s -w"
)

// NewAPIServer is the API server of NewKubernetes.
const NewAPIServer = "kube-apiserver-1.37"

// table lists what the tests use, the slowest first.
var table = []component{
	{"kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", stampKubernetes},
	{"kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", stampKubernetes},
	{"kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", stampKubernetes},
	{"kubelet.exe", "kubernetes", "k8s.io/kubernetes/cmd/kubelet", stampKubernetes},
	{"kube-proxy.exe", "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", stampKubernetes},
	{"kubeadm", "kubernetes", "k8s.io/kubernetes/cmd/kubeadm", stampKubernetes},
	{"kubeadm.exe", "kubernetes", "k8s.io/kubernetes/cmd/kubeadm", stampKubernetes},
	{"kubelet-1.35.exe", "kubernetes-1.35", "k8s.io/kubernetes/cmd/kubelet", stampOldKubernetes},
	{"kube-proxy-1.35.exe", "kubernetes-1.35", "k8s.io/kubernetes/cmd/kube-proxy", stampOldKubernetes},
	{"kubeadm-1.35.exe", "kubernetes-1.35", "k8s.io/kubernetes/cmd/kubeadm", stampOldKubernetes},
	{"kubeadm-1.30", "kubernetes-1.30", "k8s.io/kubernetes/cmd/kubeadm", stampOldestKubeadm},
	{NewAPIServer, "kubernetes-1.37", "k8s.io/kubernetes/cmd/kube-apiserver", stampNewKubernetes},
	{"kubelet-1.37.exe", "kubernetes-1.37", "k8s.io/kubernetes/cmd/kubelet", stampNewKubernetes},
	{"kube-proxy-1.37.exe", "kubernetes-1.37", "k8s.io/kubernetes/cmd/kube-proxy", stampNewKubernetes},
	{"kube-log-runner.exe", "kubernetes", "k8s.io/component-base/logs/kube-log-runner", stampKubernetes},
	{"etcd", "kubernetes", "go.etcd.io/etcd/server/v3", strip},
	{"containerd.exe", "containerd", "github.com/containerd/containerd/v2/cmd/containerd", stampContainerd},
	{"containerd-1.7.exe", "containerd-1.7", "github.com/containerd/containerd/cmd/containerd", stampContainerd17},
	{"ctr.exe", "containerd", "github.com/containerd/containerd/v2/cmd/ctr", stampContainerd},
	{"containerd-shim-runhcs-v1.exe", "hcsshim", "github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1", strip},
	{"host-local.exe", "cni-plugins", "github.com/containernetworking/plugins/plugins/ipam/host-local", strip},
	{"win-overlay.exe", "cni-plugins", "github.com/containernetworking/plugins/plugins/main/windows/win-overlay", strip},
	{"win-bridge.exe", "cni-plugins", "github.com/containernetworking/plugins/plugins/main/windows/win-bridge", strip},
	{"flannel.exe", "cni-plugin-flannel", "github.com/containernetworking/plugins/plugins/meta/flannel", strip},
	{"flanneld.exe", "flannel", "github.com/flannel-io/flannel", stampFlannel},
	{"crictl.exe", "crictl", "sigs.k8s.io/cri-tools/cmd/crictl", stampCrictl},
	{"csi-proxy.exe", "csi-proxy", "github.com/kubernetes-csi/csi-proxy/cmd/csi-proxy", stampCSIProxy},
	{"csi-proxy-mkdir.exe", "csi-proxy", "./mkdir", strip},
	{"conftest", "conftest", "github.com/open-policy-agent/conftest", stampConftest},
	{"ecr-credential-provider.exe", "ecr-credential-provider",
		"k8s.io/cloud-provider-aws/cmd/ecr-credential-provider", stampECR},
	{"windows_exporter.exe", "windows_exporter", "github.com/prometheus-community/windows_exporter", stampExporter},
}

// windowsControlPlane lists what realjoin runs where it is itself on Windows.
var windowsControlPlane = []component{
	{"kube-apiserver.exe", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", stampKubernetes},
	{"kube-controller-manager.exe", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", stampKubernetes},
	{"etcd.exe", "kubernetes", "go.etcd.io/etcd/server/v3", strip},
}

// ControlPlane are the programs of a control plane without a scheduler, on Linux or Windows.
func ControlPlane(goos string) []string {
	names := []string{"etcd", "kube-apiserver", "kube-controller-manager"}
	if goos == "windows" {
		for i := range names {
			names[i] += ".exe"
		}
	}
	return names
}

// helpers are programs of this module that run on the Windows machine.
var helpers = []string{"winsshd", "exits", "nssm", "delegate"}

// library is a stand-in DLL or program, built with mingw from sources in the wine folder.
type library struct {
	name    string
	sources []string
	libs    []string
}

var libraries = []library{
	{"bcryptprimitives.dll", []string{"prng.c", "redirect.c", "symlink.c", "access.c", "udp.c", "file_information.c",
		"unix_socket.c", "session.c", "service_config.c", "service_status.c", "shutdown.c", "reservations.c",
		"adapters.c", "routes.c", "slashes.c"},
		[]string{"-lws2_32", "-ladvapi32"}},
	{"pdh.dll", []string{"pdh.c"}, nil},
	{"vmcompute.dll", []string{"hns.c"}, []string{"-lws2_32", "-lole32"}},
	{"computenetwork.dll", []string{"hns.c"}, []string{"-lws2_32", "-lole32"}},
	{"dismapi.dll", []string{"dismapi.c", "capability.c"}, []string{"-ladvapi32", "-lshlwapi"}},
	{"netports.dll", []string{"netports.c"}, []string{"-loleaut32", "-lole32", "-luuid", "-ladvapi32"}},
	{"netsh.exe", []string{"netsh.c"}, []string{"-ladvapi32"}},
	{"bash.exe", []string{"shells.c"}, []string{"-lshell32"}},
	{"pwsh.exe", []string{"shells.c"}, []string{"-DPROFILE", "-lshell32"}},
	{"netfw.dll", []string{"netfw.c", "netfw_rules.c"}, []string{"-loleaut32", "-lole32", "-luuid"}},
}

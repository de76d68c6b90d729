package compat

// Versions of Kubernetes that the tables cover. The floor is the oldest one that the
// recipes are written for; the tables of flags, fields and gates begin before it.
var (
	kubernetesFloor  = line{1, 19}
	kubernetesNewest = line{1, 37}
)

// Kubernetes versions that the tables cover. The floor is the oldest one that the recipes support; the tables
// of flags, fields and gates begin earlier.
type Kubernetes struct {
	// Supported: not older than the floor of this nodejoin.
	Supported bool
	// Assumed is not empty if the version is newer than the tables: one sentence that says what was assumed.
	Assumed string

	// kubelet

	RuntimeEndpointField bool // containerRuntimeEndpoint in the configuration file
	TaintsField          bool // registerWithTaints in the configuration file
	// resolvConf: "" in the configuration file is honoured; earlier it means the default, /etc/resolv.conf
	EmptyResolvConf bool
	CRIv1           bool // it speaks CRI v1 to the runtime
	CRIv1alpha2     bool // it speaks CRI v1alpha2 to a runtime without v1
	// dockershim and --network-plugin, --cni-bin-dir, --cni-conf-dir, --image-pull-progress-deadline
	DockerFlags            bool
	CgroupsPerQOSFatal     bool // on Windows cgroupsPerQOS: true ends the kubelet; from 1.31 it is a warning
	LogRunner              bool // kube-log-runner is in the node archive
	ConfigDropIns          bool // --config-dir overlays more files on the configuration
	LogRunnerRotationFlags bool // kube-log-runner takes -log-file-size and -log-file-age

	DualStack      bool // pods and services of both families, as kubeadm takes their networks
	CloudDualStack bool // --node-ip of both families beside --cloud-provider=external
	DualStackGate  bool // kubelet and kube-proxy need the feature gate IPv6DualStack for it

	// CredentialProviders is the version of the kubelet's CredentialProviderConfig, "v1" or "v1beta1"; "" = it asks no
	// program for credentials unless a feature gate is on.
	CredentialProviders string
	ProviderByLookPath  bool // on Windows it finds these programs by their names without .exe

	CgroupV1Fails bool // on Linux the kubelet exits on control groups v1 unless failCgroupV1 is false

	// TokensOfNodes: its API server, which is not older, binds tokens to Nodes, and a policy knows the Node of a token.
	TokensOfNodes bool

	// kube-proxy on Windows

	WinOverlayGate bool // overlay networks need the feature gate WinOverlay
	WinDSRGate     bool // enableDSR needs the feature gate WinDSR

	// kubeadm

	JoinConfigV1Beta4 bool // it reads JoinConfiguration of kubeadm.k8s.io/v1beta4
}

// kubernetesRow says that one fact holds for the versions in span.
type kubernetesRow struct {
	set    func(*Kubernetes)
	span   span
	source string
}

var kubernetesTable = []kubernetesRow{
	{func(k *Kubernetes) { k.RuntimeEndpointField = true }, span{since: line{1, 27}},
		"kubernetes v1.26.15 and v1.27.16 pkg/kubelet/apis/config/types.go"},
	{func(k *Kubernetes) { k.TaintsField = true }, span{since: line{1, 23}},
		"kubernetes v1.23 staging/src/k8s.io/kubelet/config/v1beta1/types.go; data/kubelet_fields.txt"},
	{func(k *Kubernetes) { k.EmptyResolvConf = true }, span{since: line{1, 23}},
		"k8s.io/kubelet v0.22.17 and v0.23.17 config/v1beta1/types.go: resolvConf is a string, then a pointer"},
	{func(k *Kubernetes) { k.CRIv1 = true }, span{since: line{1, 23}},
		"kubernetes v1.23.17 pkg/kubelet/cri/remote/remote_runtime.go; absent in v1.22"},
	{func(k *Kubernetes) { k.CRIv1alpha2 = true }, span{until: line{1, 26}}, "kubernetes/kubernetes#110618"},
	{func(k *Kubernetes) { k.DockerFlags = true }, span{until: line{1, 24}},
		"kubernetes/kubernetes#106907, CHANGELOG-1.24"},
	{func(k *Kubernetes) { k.CgroupsPerQOSFatal = true }, span{since: line{1, 18}, until: line{1, 31}},
		"kubernetes/kubernetes#123137, pkg/kubelet/apis/config/validation/validation_windows.go"},
	{func(k *Kubernetes) { k.CredentialProviders = "v1beta1" }, span{since: line{1, 24}, until: line{1, 26}},
		"k8s.io/kubelet v0.24.17 config/v1beta1/types.go; Kubernetes documentation, gate KubeletCredentialProviders"},
	{func(k *Kubernetes) { k.CredentialProviders = "v1" }, span{since: line{1, 26}},
		"k8s.io/kubelet v0.26.15 config/v1/types.go"},
	{func(k *Kubernetes) { k.ProviderByLookPath = true }, span{since: line{1, 29}}, "kubernetes/kubernetes#120291"},
	{func(k *Kubernetes) { k.DualStack = true }, span{since: line{1, 20}},
		"Kubernetes documentation, IPv4/IPv6 dual-stack: prerequisite Kubernetes 1.20; before, services had another field " +
			"for it (ipFamily)"},
	{func(k *Kubernetes) { k.DualStackGate = true }, span{since: line{1, 20}, until: line{1, 21}},
		"data/feature_gates.txt: alpha (off) until 1.21, beta (on) 1.21, GA and locked 1.23"},
	{func(k *Kubernetes) { k.CloudDualStack = true }, span{since: line{1, 29}},
		"KEP-3705: CloudDualStackNodeIPs is alpha (off) 1.27, beta (on) 1.29; without a cloud provider since 1.20 " +
			"(kubernetes/kubernetes#95239)"},
	{func(k *Kubernetes) { k.CgroupV1Fails = true }, span{since: line{1, 35}},
		"kubernetes pkg/kubelet/apis/config/v1beta1/defaults.go: failCgroupV1 is true from 1.35 on (KEP-5573)"},
	{func(k *Kubernetes) { k.LogRunner = true }, span{since: line{1, 23}},
		"kubernetes v1.23 hack/lib/golang.sh: kube-log-runner in the node archive"},
	{func(k *Kubernetes) { k.ConfigDropIns = true }, span{since: line{1, 30}},
		"kubernetes/kubernetes#122907: --config-dir needs no KUBELET_CONFIG_DROPIN_DIR_ALPHA any more"},
	{func(k *Kubernetes) { k.JoinConfigV1Beta4 = true }, span{since: line{1, 31}},
		"kubernetes cmd/kubeadm/app/util/config/common.go: v1beta4 is experimental, and refused, until 1.30; " +
			"v1beta3 is deprecated from 1.31 on and gone in 1.37"},
	{func(k *Kubernetes) { k.TokensOfNodes = true }, span{since: line{1, 33}},
		"kubernetes pkg/features/kube_features.go: ServiceAccountTokenNodeBinding and ServiceAccountTokenPodNodeInfo are " +
			"beta (on) 1.31 and 1.30, locked 1.33 and 1.32"},
	{func(k *Kubernetes) { k.LogRunnerRotationFlags = true }, span{since: line{1, 34}},
		"kubernetes v1.34 staging/src/k8s.io/component-base/logs/kube-log-runner"},
	{func(k *Kubernetes) { k.WinOverlayGate = true }, span{until: line{1, 20}},
		"kubernetes pkg/features/kube_features.go: beta (on) 1.20, GA and locked 1.34 (#133042)"},
	{func(k *Kubernetes) { k.WinDSRGate = true }, span{until: line{1, 33}},
		"kubernetes pkg/features/kube_features.go: beta (on) 1.33 (#130876), GA and locked 1.34"},
}

// Kubelet looks up the node components of a Kubernetes version.
func Kubelet(version string) (Kubernetes, error) {
	v, err := Parse(version)
	if err != nil {
		return Kubernetes{}, err
	}
	l := lineOf(v)
	k := Kubernetes{Supported: !l.less(kubernetesFloor), Assumed: assumed("Kubernetes", l, kubernetesNewest)}
	for _, row := range kubernetesTable {
		if row.span.holds(l) {
			row.set(&k)
		}
	}
	return k, nil
}

// KubernetesRange returns the oldest supported and the newest known version, "1.19" and "1.37".
func KubernetesRange() (floor, newest string) {
	return kubernetesFloor.String(), kubernetesNewest.String()
}

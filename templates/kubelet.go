package templates

// Kubelet is the kubelet's KubeletConfiguration (kubelet.config.k8s.io/v1beta1)
// on Windows. cgroupsPerQOS and enforceNodeAllocatable are always written: their
// defaults are wrong there (kubernetes
// pkg/kubelet/apis/config/validation/validation_windows.go). What a version of
// Kubernetes has no field for is left out, and is the caller's to give as a flag.
type Kubelet struct {
	ClientCAFile    string
	RuntimeEndpoint string // field since Kubernetes 1.27; "" = none
	ClusterDNS      string
	ClusterDomain   string
	HealthzPort     int
	EmptyResolvConf bool     // write resolvConf: "", heeded since Kubernetes 1.23
	MaxPods         int      // 0 = kubelet's default
	Gates           []string // feature gates to switch on, as names
	Taints          []Taint  // that the Node registers with; field since Kubernetes 1.23
}

// Taint of a Node.
type Taint struct{ Key, Value, Effect string }

// Render gives the file's text.
func (k Kubelet) Render() (string, error) { return render("kubelet.yaml", k) }

package templates

// Kubelet is the kubelet's KubeletConfiguration (kubelet.config.k8s.io/v1beta1) on Windows. cgroupsPerQOS and
// enforceNodeAllocatable are always written: their defaults are wrong there (kubernetes
// pkg/kubelet/apis/config/validation/validation_windows.go). A setting that a Kubernetes version has no field
// for is left out; the caller passes it as a flag.
type Kubelet struct {
	ClientCAFile    string
	RuntimeEndpoint string // field since Kubernetes 1.27; "" = none
	ClusterDNS      string
	ClusterDomain   string
	HealthzPort     int
	EmptyResolvConf bool     // write resolvConf: "", honoured since Kubernetes 1.23
	MaxPods         int      // 0 = the kubelet's default
	Gates           []string // feature gates to turn on, as names
	Taints          []Taint  // that the Node registers with; field since Kubernetes 1.23
}

// Taint of a Node.
type Taint struct{ Key, Value, Effect string }

// Render returns the file's text.
func (k Kubelet) Render() (string, error) { return render("kubelet.yaml", k) }

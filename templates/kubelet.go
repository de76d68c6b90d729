package templates

// Kubelet is the kubelet's KubeletConfiguration (kubelet.config.k8s.io/v1beta1)
// on Windows. cgroupsPerQOS, enforceNodeAllocatable and resolvConf are always
// written: their defaults are wrong there (kubernetes
// pkg/kubelet/apis/config/validation/validation_windows.go).
type Kubelet struct {
	ClientCAFile    string
	RuntimeEndpoint string // field since Kubernetes 1.27
	ClusterDNS      string
	ClusterDomain   string
	HealthzPort     int
	MaxPods         int     // 0 = kubelet's default
	Taints          []Taint // that the Node registers with
}

// Taint of a Node.
type Taint struct{ Key, Value, Effect string }

// Render gives the file's text.
func (k Kubelet) Render() (string, error) { return render("kubelet.yaml", k) }

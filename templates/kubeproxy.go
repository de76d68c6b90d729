package templates

// KubeProxy is kube-proxy's KubeProxyConfiguration
// (kubeproxy.config.k8s.io/v1alpha1) on Windows, in mode kernelspace.
type KubeProxy struct {
	Kubeconfig  string
	NodeName    string
	BindAddress string   // address of the node; kube-proxy looks up its MAC for overlay networks
	ClusterCIDR string   // pod network
	NetworkName string   // HNS network
	SourceVIP   string   // address in the node's pod network, overlay only; "" = none
	Gates       []string // feature gates to turn on, as names
	HealthzPort int      // on all addresses, as load balancers probe it
	MetricsPort int      // on loopback
}

// Render returns the file's text.
func (k KubeProxy) Render() (string, error) { return render("kube-proxy.yaml", k) }

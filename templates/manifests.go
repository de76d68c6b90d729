package templates

import "strings"

// Flannel is the manifest of flannel for the Linux nodes of a cluster: its namespace, account, role,
// configuration and DaemonSet.
//
// Source: flannel Documentation/kube-flannel.yml of v0.27, with a node selector instead of its equivalent
// affinity, and without the firewall switch.
type Flannel struct {
	Image, CNIImage string
	NetConf         string // text of net-conf.json, which all nodes of the cluster share
}

// Render returns the manifest's text.
func (f Flannel) Render() (string, error) { return render("flannel.manifest.yaml", f) }

// KubeProxySelector is a patch that keeps the kube-proxy of a cluster's Linux nodes off its Windows nodes.
type KubeProxySelector struct{}

// Render returns the manifest's text.
func (k KubeProxySelector) Render() (string, error) { return render("kube-proxy.manifest.yaml", k) }

// Bootstrap are the role bindings with which a node with a bootstrap token gets its certificate: those that
// kubeadm creates (cmd/kubeadm/app/phases/bootstraptoken/node/tlsbootstrap.go).
type Bootstrap struct {
	Group string // of the tokens
}

// Render returns the manifest's text.
func (b Bootstrap) Render() (string, error) { return render("bootstrap.manifest.yaml", b) }

// RuntimeClasses are one RuntimeClass for each Windows build. A pod that names one is scheduled onto a node
// of that build and tolerates its taints.
type RuntimeClasses struct {
	APIVersion string // "node.k8s.io/v1"
	Handler    string // of the runtime
	Classes    []RuntimeClass
}

// RuntimeClass is one of them.
type RuntimeClass struct {
	Name, Arch  string
	Build       string // "10.0.20348", as the kubelet labels its Node
	Tolerations []Taint
}

// Render returns the manifest's text.
func (r RuntimeClasses) Render() (string, error) { return render("runtime-classes.manifest.yaml", r) }

// indent prefixes each line of a text with n spaces and removes the final newline.
func indent(n int, text string) string {
	space := strings.Repeat(" ", n)
	return space + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+space)
}

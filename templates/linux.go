package templates

import "fmt"

// ContainerdLinux is containerd's config.toml of a Linux node, with runc.
// Sources: containerd docs/cri/config.md and docs/PLUGINS.md.
type ContainerdLinux struct {
	Schema  int    // as in Containerd
	BinDirs bool   // as in Containerd
	Root    string // persistent data
	State   string // data of this boot
	Address string // socket of the gRPC API
	Imports string // pattern of files that are merged on top
	Pause   string // pause image
	CNIBin  string // folder of CNI plugins
	CNIConf string // folder of CNI configurations
	// ConfigPath is the folder of hosts.toml files; "" = none.
	ConfigPath string
	Runc       string // the program
	// SystemdCgroup is "true" or "false", or a reference to it: it must match the kubelet's cgroupDriver.
	SystemdCgroup string
}

// Render returns the file's text.
func (c ContainerdLinux) Render() (string, error) {
	switch c.Schema {
	case 2:
		return render("containerd.linux.v2.toml", c)
	case 3, 4: // schema 4 has the addresses elsewhere
		return render("containerd.linux.v3.toml", c)
	}
	return "", fmt.Errorf("unknown containerd configuration schema %d; use 2, 3 or 4", c.Schema)
}

// KubeletLinux is a KubeletConfiguration of a Linux node.
type KubeletLinux struct {
	ClientCAFile    string
	RuntimeEndpoint string
	ClusterDNS      string
	ClusterDomain   string
	CgroupDriver    string // "systemd" or "cgroupfs"
	ResolvConf      string // resolv.conf for pods that use the machine's name resolution
	HealthzPort     int
	MaxPods         int     // 0 = the kubelet's default
	Taints          []Taint // that the Node registers with
}

// Render returns the file's text.
func (k KubeletLinux) Render() (string, error) { return render("kubelet.linux.yaml", k) }

// KubeProxyLinux is a KubeProxyConfiguration of a Linux node.
type KubeProxyLinux struct {
	Kubeconfig  string
	NodeName    string
	BindAddress string
	ClusterCIDR string
	HealthzPort int // on all addresses, as load balancers probe it
	MetricsPort int // on loopback
}

// Render returns the file's text.
func (k KubeProxyLinux) Render() (string, error) { return render("kube-proxy.linux.yaml", k) }

// CNILinux is flannel's conflist, in the CNI version of flannel's own, which older plugins support: its
// plugin delegates to the plugin bridge (flannel Documentation/kube-flannel.yml).
type CNILinux struct {
	SubnetFile string // written by flanneld
	DataDir    string // state of the flannel plugin
}

// Render returns the file's text.
func (c CNILinux) Render() (string, error) { return render("cni.linux.conflist", c) }

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
	Imports string // pattern of files that are laid on top
	Pause   string // sandbox image
	CNIBin  string // folder of CNI plugins
	CNIConf string // folder of CNI configurations
	// ConfigPath is the folder of hosts.toml files; "" = none.
	ConfigPath string
	Runc       string // the program
	// SystemdCgroup is "true" or "false", or a reference to it: it must be what the
	// kubelet's cgroupDriver says.
	SystemdCgroup string
}

func (c ContainerdLinux) Render() (string, error) {
	switch c.Schema {
	case 2:
		return render("containerd.linux.v2.toml", c)
	case 3, 4: // 4 has the addresses elsewhere
		return render("containerd.linux.v3.toml", c)
	}
	return "", fmt.Errorf("containerd configuration schema %d is not known (2, 3 and 4 are)", c.Schema)
}

// KubeletLinux is a KubeletConfiguration of a Linux node.
type KubeletLinux struct {
	ClientCAFile    string
	RuntimeEndpoint string
	ClusterDNS      string
	ClusterDomain   string
	CgroupDriver    string // "systemd" or "cgroupfs"
	ResolvConf      string // file that pods with the machine's name resolution get
	HealthzPort     int
	MaxPods         int     // 0 = kubelet's default
	Taints          []Taint // that the Node registers with
}

func (k KubeletLinux) Render() (string, error) { return render("kubelet.linux.yaml", k) }

// KubeProxyLinux is a KubeProxyConfiguration of a Linux node.
type KubeProxyLinux struct {
	Kubeconfig  string
	NodeName    string
	BindAddress string
	ClusterCIDR string
	HealthzPort int // on every address, as load balancers ask it
	MetricsPort int // on loopback
}

func (k KubeProxyLinux) Render() (string, error) { return render("kube-proxy.linux.yaml", k) }

// CNILinux is flannel's conflist, in the version that flannel's own has, which older
// plugins know, too: its plugin hands over to the plugin bridge
// (flannel Documentation/kube-flannel.yml).
type CNILinux struct {
	SubnetFile string // that flanneld writes
	DataDir    string // state of the flannel plugin
}

func (c CNILinux) Render() (string, error) { return render("cni.linux.conflist", c) }

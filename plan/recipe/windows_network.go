package recipe

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

const (
	netConf        = winFlannelConf + `\net-conf.json`
	subnetFile     = winFlannelRun + `\subnet.env`
	hostLocalStore = winCNIState + `\networks` // host-local's default, /var/lib/cni/networks
	kubeProxyFile  = winKubernetes + `\kube-proxy.yaml`
)

// networkAgrees is the first step of all, so that a node whose network differs from its cluster's is rejected
// before anything is changed. It returns the ids that must come before the others.
func (b *build) networkAgrees() []string {
	n := b.in.Network
	if n.Kind != "flannel" {
		b.seen()
		return nil
	}
	defer b.seen()
	b.add("network_agrees", "flannel_agrees", "The cluster's Linux nodes have the same pod network", &kinds.FlannelAgrees{
		Backend: n.Backend, VNI: n.VNI, Port: n.Port, Network: b.in.PodCIDR})
	return []string{"network_agrees"}
}

// winPlaceholder adds a network whose only purpose is to hold the adapter's virtual switch, of the same type
// as flannel's. It is created before anything is fetched, since it breaks the machine's connections. Its
// values are those of the upstream start script for Windows nodes.
func (b *build) winPlaceholder() {
	n := b.in.Network
	if !n.Placeholder {
		return
	}
	args := &kinds.HNSNetwork{Name: placeholderNetwork, Type: "L2Bridge", Subnet: PlaceholderSubnet,
		Gateway: "192.168.255.1", Address: b.managementIP()}
	if n.Backend == VXLAN {
		args.Type, args.VNI = "Overlay", 9999
	}
	after := append([]string{"require"}, b.waysIn()...)
	for _, s := range b.specs {
		if b.before[s.ID] { // a static address has to be kept; a feature may need its reboot
			after = append(after, s.ID)
		}
	}
	b.add("placeholder", "hns_network", "HNS network "+placeholderNetwork+", which holds the adapter's switch", args,
		after...).Keep = n.KeepPlaceholder
}

// winNetworkPrepare adds folders and firewall rules of the pod network and of kube-proxy.
func (b *build) winNetworkPrepare() {
	folder := func(id, path, title string) {
		b.add(id, "directory", title, &kinds.Directory{Path: path, Access: host.AccessPrivate}, "require")
	}
	if b.kubeProxy() {
		folder("kube_proxy_log_dir", b.logDir("kube-proxy"), "Folder of kube-proxy's log")
	}
	if b.in.Network.Kind == "none" {
		return
	}
	folder("flannel_conf_dir", winFlannelConf, "Folder of flannel configuration")
	folder("flannel_run_dir", winFlannelRun, "Folder of flannel's subnet file")
	folder("flanneld_log_dir", b.logDir("flanneld"), "Folder of flanneld's log")
	if b.in.Network.Backend == VXLAN {
		b.winFirewall("firewall_vxlan", "nodejoin-vxlan", "Pod network (VXLAN)", "udp", fmt.Sprint(b.in.Network.Port))
	}
}

// winNetworkPrograms adds flanneld and the CNI plugins. Every delegate needs host-local: flannel's plugin
// assigns addresses with it.
func (b *build) winNetworkPrograms() {
	n := b.in.Network
	if n.Kind == "none" {
		return
	}
	plugins := []string{"host-local"}
	if !n.sdn() {
		plugins = append(plugins, n.delegate())
	}
	b.archive("cni_plugins", "CNI plugins "+strings.Join(plugins, " and "),
		kinds.Archive{Source: b.artifact(compat.CNIPlugins),
			To: winCNIBin, Include: programs(plugins...)}, "cni_bin_dir")
	if n.sdn() {
		b.archive("sdn_cni", "CNI plugin "+n.delegate(), kinds.Archive{Source: b.artifact(compat.SDNCNI),
			To: winCNIBin, Include: programs(n.delegate())}, "cni_bin_dir")
	}
	b.program("flannel_cni", compat.FlannelCNI, winCNIBin+`\flannel.exe`, "CNI plugin flannel", "", "cni_bin_dir")
	b.program("flanneld_program", compat.Flanneld, winBin+`\flanneld.exe`, "flanneld "+n.Version, "flanneld", "bin_dir")
}

func programs(names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, n+".exe")
	}
	return out
}

// winNetwork adds the network of the node and its CNI configuration. The configuration comes last, so that
// the Node is not Ready before its network exists. A CNI of the cluster writes its own.
func (b *build) winNetwork() {
	n := b.in.Network
	if n.Kind == "none" {
		if n.HNSNetwork != "" {
			b.add("pod_network", "hns_network_ready", "HNS network "+n.HNSNetwork+" of the cluster's CNI",
				&kinds.HNSNetworkReady{
					Name: n.HNSNetwork, Type: "L2Bridge"}, "registered")
		}
		return
	}
	log := b.logFile("flanneld")
	b.add("net_conf", "file", "flannel net-conf.json", &kinds.File{Path: netConf, Content: b.render(netConfOf(b.in))},
		"flannel_conf_dir")

	flanneld := winBin + `\flanneld.exe`
	command := []string{flanneld, "--kube-subnet-mgr", "--kubeconfig-file=" + flannelConf, "--iface=" + b.managementIP(),
		"--ip-masq=true",
		"--net-config-path=" + netConf, "--subnet-file=" + subnetFile}
	watch := []string{flanneld, b.agentPath(), netConf, flannelConf}
	if b.in.Settings.Services.NSSM {
		watch = []string{flanneld, netConf, flannelConf}
	} else { // flanneld is not a service by itself
		command = append([]string{b.agentPath(), "supervise", "--name", "flanneld", "--log", log, "--"}, command...)
	}
	service := winService("flanneld", "Pod network (flannel)", command)
	// The name of the Node; without it flanneld assumes that it runs in a pod (pkg/subnet/kube/kube.go).
	service.Environment = []string{"NODE_NAME=" + b.in.Node}
	after := []string{"agent", "flanneld_program", "net_conf", "flannel_kubeconfig", "flannel_run_dir",
		"flanneld_log_dir", "registered", "flannel_network"}
	if n.Backend == VXLAN {
		after = append(after, "firewall_vxlan")
	}
	b.flannelNetwork()
	b.add("flanneld", "service", "Service flanneld", b.underNSSM(&kinds.Service{
		ServiceConfig: service,
		Watch:         watch,
		RestartOn:     lifeOf(),
		Log:           log,
		Makes:         []string{winFlannelRun, b.logDir("flanneld")},
		HNSNetworks:   []string{b.networkName()},
	}, ""), b.afterNSSM(after...)...)
	b.add("subnet_env", "file_ready", "flanneld has written subnet.env", &kinds.FileReady{
		Path: subnetFile, Contains: "FLANNEL_SUBNET=" + steps.Ref("registered.subnet_gateway"), Service: "flanneld",
		Log: log}, "flanneld")
	conf := winCNIConf + `\10-flannel.conflist`
	b.add("cni_conf_first", "cni_conf_first", "No other CNI configuration takes precedence",
		&kinds.CNIConfFirst{Path: conf}, "cni_conf_dir")
	after = []string{"cni_conf_dir", "cni_conf_first", "cni_plugins", "flannel_cni", "subnet_env"}
	if n.sdn() {
		after = append(after, "sdn_cni")
	}
	b.add("cni_conf", "file", "CNI configuration", &kinds.File{Path: conf, Content: b.render(b.cni())}, after...)
}

// flannelNetwork adds the HNS network of the Node's pods. flanneld adopts a network of its name, type and
// subnet. By itself it would name the adapter to HNS from 0.24.1 on (pkg/backend/vxlan/vxlan_windows.go), which HNS
// refuses once the adapter has a virtual switch. The network outlives boots, so that kube-proxy finds it at once.
func (b *build) flannelNetwork() {
	args := &kinds.HNSNetwork{Name: b.networkName(), Type: "L2Bridge", Subnet: steps.Ref("registered.pod_cidr"),
		Address: b.managementIP(), Service: "flanneld"}
	if b.in.Network.Backend == VXLAN {
		args.Type, args.VNI = "Overlay", b.in.Network.VNI
	}
	after := append([]string{"registered"}, b.waysIn()...)
	if b.in.Network.Placeholder {
		after = append(after, "placeholder")
	}
	b.add("flannel_network", "hns_network", "HNS network "+b.networkName(), args, after...)
}

// cni is the CNI configuration. It uses the second HNS API (apiVersion 2) for containerd, which gives each
// pod an HNS namespace. Docker's containers have none and need the first.
func (b *build) cni() templates.CNI {
	kernel, _ := b.in.KubeProxy.Config["winkernel"].(map[string]any)
	return templates.CNI{Network: b.networkName(), Delegate: b.in.Network.delegate(), SubnetFile: subnetFile,
		DataDir: winCNIState + `\flannel`,
		PodCIDR: b.in.PodCIDR, ServiceCIDR: b.in.ServiceCIDR, NodeIP: b.managementIP(),
		NodeSubnet:  steps.Ref("require.subnet"),
		LoopbackDSR: kernel["enableDSR"] == true, HNSv1: b.in.Runtime.Kind != "containerd"}
}

// winProxy adds kube-proxy. On an overlay it uses an address of the pod network as its source. It does not
// wait for the Node to be Ready.
func (b *build) winProxy() {
	if !b.kubeProxy() {
		return
	}
	log := b.logFile("kube-proxy")
	config := templates.KubeProxy{
		Kubeconfig: kubeProxyConf, NodeName: b.in.Node, BindAddress: b.managementIP(), ClusterCIDR: b.in.PodCIDR,
		NetworkName: b.networkName(), HealthzPort: kubeProxyHealthz, MetricsPort: kubeProxyMetrics, Gates: b.proxyGates(),
	}
	configAfter, network, services := []string{"kubernetes_dir"}, "flannel_network", []string{"flanneld", "kubelet"}
	if b.in.Network.Kind == "none" {
		network, services = "pod_network", []string{"kubelet"}
	}
	if b.in.Network.Kind == "flannel" && b.in.Network.Backend == VXLAN {
		b.add("source_vip", "source_vip", "Source VIP of kube-proxy", &kinds.SourceVIP{
			Dir: hostLocalStore, Network: b.networkName(), Subnet: steps.Ref("registered.pod_cidr")},
			"cni_state_dir", "subnet_env")
		config.SourceVIP = steps.Ref("source_vip.address")
		configAfter = append(configAfter, "source_vip")
	}
	b.add("kube_proxy_config", "file", "kube-proxy configuration", &kinds.File{Path: kubeProxyFile,
		Content: b.merged(b.render(config), b.in.KubeProxy.Config)}, configAfter...)
	// The flag, not the field windowsRunAsService: kube-proxy decides whether it is a service before it reads
	// its file (v1.36.3 cmd/kube-proxy/app/server.go), so the field alone leaves the service manager waiting.
	program := slices.Concat([]string{winBin + `\kube-proxy.exe`}, b.asService(), []string{"--config=" + kubeProxyFile})
	program = append(program, b.in.KubeProxy.Args...)
	b.add("kube_proxy", "service", "Service kube-proxy", b.underNSSM(&kinds.Service{
		ServiceConfig: winService("kube-proxy", "Kubernetes network proxy", b.serviceCommand(log, program...), services...),
		Watch:         append(b.programs("kube-proxy.exe"), kubeProxyFile, kubeProxyConf),
		Log:           log,
		Makes:         []string{b.logDir("kube-proxy")},
	}, ""), b.afterNSSM("kubernetes_node", "kube_proxy_config", "kube_proxy_kubeconfig", "kube_proxy_log_dir",
		"kubelet_ready", network)...)
	b.add("kube_proxy_ready", "http_ready", "kube-proxy is healthy",
		&kinds.HTTPReady{URL: loopback(kubeProxyHealthz), Service: "kube-proxy", Log: log}, "kube_proxy")
}

// proxyGates returns the feature gates without which this version of kube-proxy supports no overlay networks,
// or one IP family only.
func (b *build) proxyGates() []string {
	if b.kubernetes.WinOverlayGate && b.in.Network.Kind == "flannel" && b.in.Network.Backend == VXLAN {
		return []string{"WinOverlay"}
	}
	return b.familyGates()
}

// placeholderNetwork is the network that the upstream start scripts create on the adapter before flannel's.
// The recipe creates it if the plan asks for it (winPlaceholder).
const placeholderNetwork = "External"

// PlaceholderSubnet is the subnet of that network.
const PlaceholderSubnet = "192.168.255.0/30"

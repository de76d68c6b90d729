package recipe

import (
	"fmt"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

// linCredentials adds the CA and a kubeconfig for each component. A token is minted only if the kubeconfig
// that holds it has to be written.
func (b *build) linCredentials() {
	ca := &kinds.File{Path: linCA, Content: steps.Ref("cluster.ca")}
	if !b.byKubeadm() {
		b.add("ca", "file", "The cluster's CA", ca, "pki_dir")
	}
	k := templates.KubeletLinux{ClientCAFile: linCA, RuntimeEndpoint: linContainerdEndpoint, ClusterDNS: b.in.DNSIP,
		ClusterDomain: b.in.DNSDomain,
		CgroupDriver:  steps.Ref("fact.cgroup_driver"), ResolvConf: steps.Ref("fact.resolv_conf"),
		HealthzPort: kubeletHealthz, MaxPods: b.in.MaxPods}
	for _, t := range b.firstTaints() {
		k.Taints = append(k.Taints, templates.Taint(t))
	}
	path, dir := b.kubeletSettings(linKubeletDropIn, linKubeletConfig)
	b.add("kubelet_config", "file", "Kubelet configuration",
		&kinds.File{Path: path, Content: b.merged(b.render(k), b.in.Kubelet.Config)}, dir)

	b.manifests()
	b.accounts()
	if b.byKubeadm() { // it refuses to run if the CA is there
		b.kubeadmJoin(&kinds.KubeadmJoin{Program: linBin + "/kubeadm", CRISocket: linContainerdEndpoint,
			Kubelet: b.linKubeletCommand(), Makes: linKubeletMakes,
			Chains: b.withFlannel("KUBE-"), Log: b.linData() + "/kubeadm.log"},
			"containerd_ready", "kubelet_config", "kubernetes_node", "data_dir", "static_pods_dir",
			"sysctl_bridge_iptables", "sysctl_ip_forward")
		b.add("ca", "file", "The cluster's CA", ca, "pki_dir", "kubeadm_join")
		return
	}
	b.nameFree("bootstrap_kubeconfig")
	b.bootstrapToken("bootstrap_kubeconfig", "containerd_ready", "kubelet_config", "kubernetes_node")
	b.add("bootstrap_kubeconfig", "kubeconfig", "Bootstrap kubeconfig", &kinds.Kubeconfig{
		Path: linBootstrapConf, Server: b.in.APIServer, CA: steps.Ref("cluster.ca"), User: "tls-bootstrap-token-user",
		Token: steps.Ref(JoinToken), Unless: linKubeletConf, Services: []string{"kubelet"},
		Backup: []string{linKubeletConf, linKubeletPKI + "/kubelet-client-current.pem"},
	}, "join_token", "kubernetes_dir", "kubelet_pki_dir")
}

// linKubeletCommand returns the kubelet with its arguments.
func (b *build) linKubeletCommand() []string {
	command := []string{linBin + "/kubelet", "--config=" + linKubeletConfig}
	if b.byKubeadm() {
		command = append(command, "--config-dir="+linKubeletDropIn)
	}
	command = append(command, "--bootstrap-kubeconfig="+linBootstrapConf, "--kubeconfig="+linKubeletConf,
		"--cert-dir="+linKubeletPKI, "--root-dir="+linKubelet, "--hostname-override="+b.in.Node, "--node-ip="+b.nodeIPs())
	return slices.Concat(command, b.providerFlags(), b.in.Kubelet.Args)
}

// linKubeletMakes are the files and folders that the kubelet makes. The last one is where it looks for volume plugins
// (pkg/volume/plugins.go, FlexVolume).
var linKubeletMakes = []string{linKubelet, linKubeletConf, "/var/log/pods", "/var/log/containers",
	"/usr/libexec/kubernetes"}

// linKubelet adds the kubelet, up to its health.
func (b *build) linKubelet() {
	watch, joins, flags := []string{linKubeletConfig, linCA}, "bootstrap_kubeconfig", ""
	var gone []string
	if b.byKubeadm() {
		watch, joins = append(watch, linKubeletDropIn+"/"+settingsFile), "kubeadm_join"
		flags, gone = linKubelet+"/kubeadm-flags.env", b.kubeadmFlagsGone()
	}
	after := append([]string{"seen", "kubernetes_node", "kubelet_config", "ca", joins, "kubelet_pki_dir",
		"containerd_ready", "sysctl_bridge_iptables", "sysctl_ip_forward"}, b.needs...)
	b.add("kubelet", "service", "Service kubelet", &kinds.Service{
		ServiceConfig: linService("kubelet", "Kubernetes node agent", b.linKubeletCommand(), "containerd"),
		FlagsFile:     flags,
		FlagsGone:     gone,
		Watch:         append(watch, b.providerFile()...),
		RestartIf:     missing(),
		Log:           b.linLog("kubelet"),
		Makes:         linKubeletMakes,
		Chains:        b.withFlannel("KUBE-"),
	}, after...)
	b.add("kubelet_ready", "http_ready", "Kubelet is healthy",
		&kinds.HTTPReady{URL: loopback(kubeletHealthz), Service: "kubelet", Log: b.linLog("kubelet")}, "kubelet")
}

// linRegistered adds the Node's labels and taints and the kubelet's certificate, in the order that
// winRegistered explains.
func (b *build) linRegistered() {
	if b.flannel() {
		b.add("registered", "node_registered", "Node is registered and has a pod network",
			&kinds.NodeRegistered{PodCIDR: true, Version: b.in.Kubernetes}, "kubelet_ready")
	} else {
		b.add("registered", "node_registered", "Node is registered", &kinds.NodeRegistered{Version: b.in.Kubernetes},
			"kubelet_ready")
	}
	b.nodeOwned()
	b.tokens()
	server := b.in.APIServer
	if b.byKubeadm() {
		server = "" // kubeadm may take it from the cluster's cluster-info
	}
	b.add("kubelet_certificate", "credentials_ready", "Kubelet has its certificate", &kinds.CredentialsReady{
		Path: linKubeletConf, Server: server, CA: steps.Ref("cluster.ca"), Service: "kubelet",
		Log: b.linLog("kubelet"),
	}, "registered")
}

// linFlannel adds the node's pod network and its CNI configuration. The configuration comes last, so that the
// Node is not Ready before its network exists.
func (b *build) linFlannel() {
	b.add("net_conf", "file", "flannel net-conf.json", &kinds.File{Path: linNetConf, Content: b.render(netConfOf(b.in))},
		"flannel_conf_dir")
	flanneld := linService("flanneld", "Pod network (flannel)",
		[]string{linBin + "/flanneld", "--kube-subnet-mgr", "--kubeconfig-file=" + linFlannelKube,
			"--iface=" + b.managementIP(), "--ip-masq=true", "--net-config-path=" + linNetConf,
			"--subnet-file=" + linSubnetFile})
	// The name of the Node; without it flanneld assumes that it runs in a pod (pkg/subnet/kube/kube.go).
	flanneld.Environment = []string{"NODE_NAME=" + b.in.Node}
	after := []string{"flanneld_program", "net_conf", "flannel_kubeconfig", "flannel_run_dir", "registered"}
	ready := &kinds.FileReady{Path: linSubnetFile,
		Contains: "FLANNEL_SUBNET=" + steps.Ref("registered.subnet_gateway"), Service: "flanneld", Log: b.linLog("flanneld")}
	var vtep, routes []string // into the subnets of other nodes; they disappear with a vtep
	if b.in.Network.Backend == VXLAN {
		ready.Interface = fmt.Sprintf("flannel.%d", b.in.Network.VNI)
		after, vtep = append(after, "module_vxlan"), []string{ready.Interface}
	} else {
		routes = []string{b.in.PodCIDR}
	}
	b.add("flanneld", "service", "Service flanneld",
		&kinds.Service{ServiceConfig: flanneld, Watch: []string{linNetConf, linFlannelKube}, RestartOn: lifeOf(),
			Log:   b.linLog("flanneld"),
			Makes: []string{linFlannelRun}, Renews: []string{linSubnetFile}, Interfaces: vtep, Routes: routes,
			Chains: []string{"FLANNEL-"}}, after...)
	b.add("subnet_env", "file_ready", "flanneld has written subnet.env", ready, "flanneld")
	b.add("cni_conf", "file", "CNI configuration",
		&kinds.File{Path: linCNIConf + "/10-flannel.conflist", Content: b.render(templates.CNILinux{
			SubnetFile: linSubnetFile, DataDir: linCNIState + "/flannel"})}, "cni_conf_dir", "cni_plugins",
		"flannel_cni", "subnet_env")
}

// proxyChains are prefixes of the chains that kube-proxy makes, and the kubelet does not (kubernetes
// pkg/proxy/iptables/proxier.go, pkg/proxy/ipvs/proxier.go): they go with it while the kubelet stays.
var proxyChains = []string{"KUBE-EXT", "KUBE-FORWARD", "KUBE-FW-", "KUBE-IPVS-", "KUBE-LOAD-BALANCER",
	"KUBE-MARK-MASQ", "KUBE-NODE", "KUBE-POSTROUTING", "KUBE-PROXY-", "KUBE-SEP-", "KUBE-SERVICES",
	"KUBE-SOURCE-RANGES-", "KUBE-SVC-", "KUBE-SVL-"}

// linProxy adds kube-proxy.
func (b *build) linProxy() {
	b.add("kube_proxy_config", "file", "kube-proxy configuration",
		&kinds.File{Path: linProxyConfig, Content: b.merged(b.render(templates.KubeProxyLinux{
			Kubeconfig: linProxyKube, NodeName: b.in.Node, BindAddress: b.managementIP(), ClusterCIDR: b.in.PodCIDR,
			HealthzPort: kubeProxyHealthz, MetricsPort: kubeProxyMetrics,
		}), b.in.KubeProxy.Config)}, "kubernetes_dir")
	command := append([]string{linBin + "/kube-proxy", "--config=" + linProxyConfig}, b.in.KubeProxy.Args...)
	var tables []string
	if b.nftables() {
		tables = []string{"kube-proxy"} // of both families (kubernetes pkg/proxy/nftables/proxier.go)
	}
	b.add("kube_proxy", "service", "Service kube-proxy", &kinds.Service{
		ServiceConfig: linService("kube-proxy", "Kubernetes network proxy", command),
		Watch:         []string{linProxyConfig, linProxyKube},
		Log:           b.linLog("kube-proxy"),
		Chains:        proxyChains,
		FilterTables:  tables,
	}, "kubernetes_node", "kube_proxy_config", "kube_proxy_kubeconfig", "kubelet_ready", "subnet_env")
	b.add("kube_proxy_ready", "http_ready", "kube-proxy is healthy",
		&kinds.HTTPReady{URL: loopback(kubeProxyHealthz), Service: "kube-proxy", Log: b.linLog("kube-proxy")}, "kube_proxy")
}

// nftables reports whether kube-proxy writes its rules with nft(8).
func (b *build) nftables() bool { return b.proxy() && b.in.KubeProxy.Config["mode"] == "nftables" }

// linReady adds the last gate, and removes the bootstrap credentials once the kubelet has its own (see
// winReady).
func (b *build) linReady() {
	after := []string{"kubelet_certificate"}
	after = append(after, "node_labels", "node_taints")
	if b.flannel() {
		after = append(after, "cni_conf")
	}
	if b.proxy() {
		after = append(after, "kube_proxy_ready")
	}
	if b.flannel() || b.in.Network.Ready {
		b.add("node_ready", "node_ready", "Node is Ready", &kinds.NodeReady{}, after...)
		after = []string{"node_ready"}
	}
	b.add("token_removed", "bootstrap_token", "Bootstrap token is revoked", &kinds.BootstrapToken{Absent: true}, after...)
	b.add("bootstrap_removed", "file", "Bootstrap kubeconfig is removed",
		&kinds.File{Path: linBootstrapConf, Absent: true, Sensitive: true}, after...)
	b.joined("token_removed", "bootstrap_removed")
}

package recipe

import (
	"fmt"

	"nodejoin/steps"
	"nodejoin/templates"
)

const (
	netConf        = winFlannelConf + `\net-conf.json`
	subnetFile     = winFlannelRun + `\subnet.env`
	hostLocalStore = winCNIState + `\networks` // host-local's default, /var/lib/cni/networks
	kubeProxyFile  = winKubernetes + `\kube-proxy.yaml`
)

// winFlannel: the overlay network of the node and its CNI configuration. That is
// written last, so that the Node does not become Ready before its network is there.
func (b *build) winFlannel() {
	log := winLog + `\flanneld\flanneld.log`
	b.add("net_conf", "file", "flannel net-conf.json", &steps.File{Path: netConf, Content: b.render(templates.NetConf{
		Network: b.in.PodCIDR, VNI: b.in.Network.VNI, Port: b.in.Network.Port})}, "flannel_conf_dir")

	flanneld := winBin + `\flanneld.exe`
	service := winService("flanneld", "Pod network (flannel)", []string{b.agentPath(), "supervise", "--name", "flanneld", "--log", log, "--",
		flanneld, "--kube-subnet-mgr", "--kubeconfig-file=" + flannelConf, "--iface=" + b.managementIP(), "--ip-masq=true",
		"--net-config-path=" + netConf, "--subnet-file=" + subnetFile})
	// The name of the Node; without it flanneld takes itself for a pod (pkg/subnet/kube/kube.go).
	service.Environment = []string{"NODE_NAME=" + b.in.Node}
	b.add("flanneld", "service", "Service flanneld", &steps.Service{
		ServiceConfig: service,
		Watch:         []string{flanneld, b.agentPath(), netConf, flannelConf},
		Log:           log,
	}, "agent", "flanneld_program", "net_conf", "flannel_kubeconfig", "flannel_run_dir", "flanneld_log_dir", "firewall_vxlan", "registered")
	b.add("flannel_network", "hns_network_ready", "HNS network "+b.networkName(), &steps.HNSNetworkReady{
		Name: b.networkName(), Type: "Overlay", VNI: b.in.Network.VNI, Service: "flanneld", Log: log}, "flanneld")
	b.add("subnet_env", "file_ready", "flanneld has written subnet.env", &steps.FileReady{
		Path: subnetFile, Contains: "FLANNEL_SUBNET=", Service: "flanneld", Log: log}, "flannel_network")
	b.add("cni_conf", "file", "CNI configuration", &steps.File{Path: winCNIConf + `\10-flannel.conflist`, Content: b.render(templates.CNI{
		Network: b.networkName(), SubnetFile: subnetFile, DataDir: winCNIState + `\flannel`,
		PodCIDR: b.in.PodCIDR, ServiceCIDR: b.in.ServiceCIDR, NodeIP: b.managementIP(),
	})}, "cni_conf_dir", "cni_plugins", "flannel_cni", "subnet_env")
}

// winProxy: kube-proxy with an address of the pod network as its source.
func (b *build) winProxy() {
	log := winLog + `\kube-proxy\kube-proxy.log`
	b.add("source_vip", "source_vip", "Source VIP of kube-proxy", &steps.SourceVIP{
		Dir: hostLocalStore, Network: b.networkName(), Subnet: steps.Ref("registered.pod_cidr")}, "cni_state_dir", "subnet_env")
	b.add("kube_proxy_config", "file", "kube-proxy configuration", &steps.File{Path: kubeProxyFile, Content: b.merged(b.render(templates.KubeProxy{
		Kubeconfig: kubeProxyConf, NodeName: b.in.Node, BindAddress: b.managementIP(), ClusterCIDR: b.in.PodCIDR,
		NetworkName: b.networkName(), SourceVIP: steps.Ref("source_vip.address"),
		HealthzPort: kubeProxyHealthz, MetricsPort: kubeProxyMetrics,
	}), b.in.KubeProxy.Config)}, "kubernetes_dir", "source_vip")
	// The flag, not the field windowsRunAsService: kube-proxy decides whether it is a
	// service before it reads its file (v1.36.3 cmd/kube-proxy/app/server.go), so the
	// field alone leaves the service manager waiting.
	program := []string{winBin + `\kube-proxy.exe`, "--windows-service", "--config=" + kubeProxyFile}
	program = append(program, b.in.KubeProxy.Args...)
	b.add("kube_proxy", "service", "Service kube-proxy", &steps.Service{
		ServiceConfig: winService("kube-proxy", "Kubernetes network proxy", b.logged(log, program...), "flanneld", "kubelet"),
		Watch:         append(join(winBin, "kube-proxy.exe", "kube-log-runner.exe"), kubeProxyFile, kubeProxyConf),
		Log:           log,
	}, "kubernetes_node", "kube_proxy_config", "kube_proxy_kubeconfig", "kube_proxy_log_dir", "kubelet_ready", "flannel_network")
	b.add("kube_proxy_ready", "http_ready", "kube-proxy is healthy", &steps.HTTPReady{URL: loopback(kubeProxyHealthz), Service: "kube-proxy", Log: log}, "kube_proxy")
}

func loopback(port int) string { return fmt.Sprintf("http://127.0.0.1:%d/healthz", port) }

package recipe

import (
	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

// linux is the recipe of a Linux node with containerd and runc.
//
// Its gates: containerd answers on its socket, the kubelet is healthy, the Node has a pod network, flanneld
// has written subnet.env, kube-proxy is healthy, the Node is Ready. If the cluster brings its own network
// (network "none") there is neither flanneld nor kube-proxy, and the last gate is the kubelet's certificate.
// A cluster may also bring kube-proxy alone.
func (b *build) linux() {
	b.linPrepare()
	b.linPrograms()
	b.linRuntime()
	b.images(linContainerdSocket, linBin+"/ctr")
	b.credentialProviders()
	b.linCredentials()
	b.linKubelet()
	b.linRegistered()
	b.serving(linKubeletPKI+"/kubelet-server-current.pem", b.linLog("kubelet"))
	if b.flannel() {
		b.linFlannel()
	}
	if b.proxy() {
		b.linProxy()
	}
	b.linNode()
	b.linReady()
}

// linPrepare adds preflight, kernel settings and folders.
func (b *build) linPrepare() {
	b.seen()
	b.linPreflight()
	b.settings("require")

	b.add("module_overlay", "kernel_module", "Kernel module overlay", &kinds.KernelModule{Name: "overlay"}, "require")
	b.add("module_br_netfilter", "kernel_module", "Kernel module br_netfilter",
		&kinds.KernelModule{Name: "br_netfilter"}, "require")
	if b.flannel() && b.in.Network.Backend == VXLAN {
		b.add("module_vxlan", "kernel_module", "Kernel module vxlan", &kinds.KernelModule{Name: "vxlan"}, "require")
	}
	// Traffic over a bridge must pass the rules of kube-proxy, and the machine forwards it (kubernetes.io,
	// "Container Runtimes"; the guides for Windows nodes require the first of the cluster's Linux nodes).
	b.add("sysctl_bridge_iptables", "sysctl", "Bridged packets pass iptables",
		&kinds.Sysctl{Name: "net.bridge.bridge-nf-call-iptables", Value: "1"}, "module_br_netfilter")
	b.add("sysctl_ip_forward", "sysctl", "Packets are forwarded", &kinds.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"},
		"require")

	dirs := []struct {
		id, path, title string
		access          host.Access
		after           string
	}{
		{"data_dir", b.linData(), "nodejoin's own folder", host.AccessPrivate, "require"},
		{"kubernetes_dir", linKubernetes, "Folder of Kubernetes configuration", host.AccessDefault, "require"},
		{"pki_dir", linPKI, "Folder of the cluster's CA", host.AccessDefault, "kubernetes_dir"},
		{"kubelet_dir", linKubelet, "Folder of the kubelet", host.AccessDefault, "require"},
		{"kubelet_pki_dir", linKubeletPKI, "Folder of the kubelet's keys", host.AccessPrivate, "kubelet_dir"},
		{"containerd_dir", linContainerd, "Folder of containerd's configuration", host.AccessDefault, "require"},
		{"cni_bin_dir", linCNIBin, "Folder of CNI plugins", host.AccessDefault, "require"},
		{"cni_conf_dir", linCNIConf, "Folder of CNI configuration", host.AccessDefault, "require"},
	}
	for _, d := range dirs {
		b.add(d.id, "directory", d.title, &kinds.Directory{Path: d.path, Access: d.access,
			Closed: b.closed(d.id, d.path)}, d.after)
	}
	if b.byKubeadm() { // named by the cluster's ConfigMap kubelet-config
		b.add("static_pods_dir", "directory", "Folder of static pods", &kinds.Directory{Path: linKubernetes + "/manifests"},
			"kubernetes_dir")
	}
	if b.flannel() {
		b.add("flannel_conf_dir", "directory", "Folder of flannel configuration",
			&kinds.Directory{Path: linFlannelConf}, "require")
		b.add("flannel_run_dir", "directory", "Folder of flannel's subnet file",
			&kinds.Directory{Path: linFlannelRun}, "require")
	}
}

// linPrograms adds all artifacts.
func (b *build) linPrograms() {
	b.archive("containerd_files", "containerd "+b.in.Runtime.Version,
		kinds.Archive{Source: b.artifact(compat.ContainerdName), To: linBin, Strip: 1,
			Include: []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr"}, Services: []string{"containerd"}},
		"require")
	if b.in.Runtime.Crictl != "" {
		b.keeping(b.in.Runtime.KeepCrictl, func() {
			b.archive("crictl", "crictl "+b.in.Runtime.Crictl,
				kinds.Archive{Source: b.artifact(compat.Crictl), To: linBin, Include: []string{"crictl"}}, "require")
		})
		// The default path of its configuration (cri-tools docs/crictl.md).
		b.add("crictl_config", "file", "crictl configuration",
			&kinds.File{Path: "/etc/crictl.yaml", Content: b.render(templates.Crictl{
				Endpoint: "unix://" + linContainerdSocket})}, "require").Keep = b.in.Runtime.KeepCrictl
	}
	b.program("runc", compat.Runc, linBin+"/runc", "runc", "", "require")
	include, services := []string{"kubernetes/node/bin/kubelet"}, []string{"kubelet"}
	if b.byKubeadm() {
		include = append(include, "kubernetes/node/bin/kubeadm")
	}
	if b.proxy() {
		include, services = append(include, "kubernetes/node/bin/kube-proxy"), append(services, "kube-proxy")
	}
	b.archive("kubernetes_node", "Kubernetes "+b.in.Kubernetes+" node programs",
		kinds.Archive{Source: b.artifact(compat.KubernetesNode), To: linBin, Strip: 3,
			Include: include, Services: services, Versions: map[string]string{"kubelet": "v" + b.in.Kubernetes}}, "require")
	b.program("agent", AgentArtifact, b.agentPath(), "nodejoin agent", nodeService, "require")
	if b.flannel() {
		b.archive("cni_plugins", "CNI plugins bridge, host-local, loopback and portmap",
			kinds.Archive{Source: b.artifact(compat.CNIPlugins), To: linCNIBin,
				Include: []string{"bridge", "host-local", "loopback", "portmap"}}, "cni_bin_dir")
		b.program("flannel_cni", compat.FlannelCNI, linCNIBin+"/flannel", "CNI plugin flannel", "", "cni_bin_dir")
		b.program("flanneld_program", compat.Flanneld, linBin+"/flanneld", "flanneld "+b.in.Network.Version,
			"flanneld", "require")
	}
}

// linRuntime adds containerd, up to its socket.
func (b *build) linRuntime() {
	config := linContainerd + "/config.toml"
	certs := ""
	if len(b.in.Runtime.Registries) > 0 {
		certs = linContainerd + "/certs.d"
	}
	b.runtimeConfig(config, linBin+"/containerd", b.render(templates.ContainerdLinux{
		ConfigPath: certs,
		Schema:     b.containerd.Schema, BinDirs: b.containerd.BinDirs, Root: linContainerdData,
		State: "/run/containerd", Address: linContainerdSocket,
		Imports: linContainerd + "/conf.d/*.toml", Pause: b.pause(), CNIBin: linCNIBin, CNIConf: linCNIConf,
		Runc:          linBin + "/runc",
		SystemdCgroup: steps.Ref("fact.systemd_cgroup"),
	}), "containerd_dir")
	b.add("containerd", "service", "Service containerd", &kinds.Service{
		ServiceConfig: linService("containerd", "Container runtime", []string{linBin + "/containerd", "--config", config}),
		Watch:         []string{linBin + "/containerd-shim-runc-v2", config},
		Log:           b.linLog("containerd"),
		Pods:          linContainerdSocket,
		// the CNI plugins are its child processes
		Makes: []string{linContainerdData, "/run/containerd", "/run/nri", "/opt/containerd", linCNIState},
		// Made by the CNI plugins flannel and portmap, and for pods (containerd, pkg/netns).
		Interfaces: b.withFlannel("cni0"), Chains: b.withFlannel("CNI-"), NetworkNamespaces: []string{"cni-"},
	}, "containerd_files", "containerd_config", "runc", "module_overlay", "data_dir")
	b.add("containerd_ready", "pipe_ready", "containerd answers", &kinds.PipeReady{
		Address: linContainerdSocket, GRPCMethod: "/runtime." + b.runtime.api + ".RuntimeService/Version",
		Service: "containerd", Log: b.linLog("containerd"),
	}, "containerd")
	b.registries("containerd_dir")
}

package recipe

import (
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

func (b *build) kubeletConfigFile() {
	k := templates.Kubelet{ClientCAFile: winCA, ClusterDNS: b.in.DNSIP, ClusterDomain: b.in.DNSDomain,
		HealthzPort: kubeletHealthz, EmptyResolvConf: b.kubernetes.EmptyResolvConf, MaxPods: b.in.MaxPods,
		Gates: b.familyGates()}
	if b.kubernetes.RuntimeEndpointField {
		k.RuntimeEndpoint = containerdEndpoint
	}
	if b.kubernetes.TaintsField {
		for _, t := range b.firstTaints() {
			k.Taints = append(k.Taints, templates.Taint(t))
		}
	}
	path, dir := b.kubeletSettings(kubeletDropIn, kubeletConfig)
	b.add("kubelet_config", "file", "Kubelet configuration",
		&kinds.File{Path: path, Access: host.AccessPrivate, Content: b.merged(b.render(k), b.in.Kubelet.Config)}, dir)
}

// winKubeletCommand returns the kubelet with its arguments. The flag --bootstrap-kubeconfig stays: the
// kubelet does not read that file while kubelet.conf holds a valid certificate
// (pkg/kubelet/certificate/bootstrap).
func (b *build) winKubeletCommand() []string {
	program := slices.Concat([]string{winBin + `\kubelet.exe`}, b.asService(), []string{"--config=" + kubeletConfig})
	if b.byKubeadm() {
		program = append(program, "--config-dir="+kubeletDropIn)
	}
	if b.in.Join.Kind != "kubeconfig" {
		program = append(program, "--bootstrap-kubeconfig="+bootstrapConf)
	}
	program = append(program, "--kubeconfig="+kubeletConf,
		"--cert-dir="+winKubeletPKI, "--root-dir="+winKubelet, "--hostname-override="+b.in.Node, "--node-ip="+b.nodeIPs())
	return slices.Concat(program, b.kubeletRuntimeFlags(), b.kubeletFieldFlags(), b.kubeletPriority(), b.providerFlags(),
		b.in.Kubelet.Args)
}

// winKubeletMakes returns the files and folders that the kubelet makes.
func (b *build) winKubeletMakes() []string {
	return []string{winKubelet, kubeletConf, b.logDir("kubelet"), winLog + `\pods`, winLog + `\containers`}
}

// winKubelet adds the kubelet, up to its health; credentials are the ids of the steps that provide its
// credentials.
func (b *build) winKubelet(credentials []string) {
	log, watch, flags := b.logFile("kubelet"), []string{kubeletConfig, winCA}, ""
	var gone []string
	switch b.in.Join.Kind {
	case "kubeconfig":
		watch = append(watch, kubeletConf)
	case "kubeadm":
		watch, flags, gone = append(watch, kubeletDropIn+`\`+settingsFile), kubeadmFlags, b.kubeadmFlagsGone()
	}
	watch = append(watch, b.providerFile()...)
	after := append([]string{"seen", "kubernetes_node", "kubelet_config", "ca", "kubelet_pki_dir", "kubelet_log_dir",
		"firewall_kubelet", b.runtime.ready}, slices.Concat(credentials, b.needs)...)
	b.add("kubelet", "service", "Service kubelet", b.underNSSM(&kinds.Service{
		ServiceConfig: winService("kubelet", "Kubernetes node agent", b.serviceCommand(log, b.winKubeletCommand()...),
			b.runtime.service),
		RestartIf: missing(),
		FlagsFile: flags,
		FlagsGone: gone,
		Watch:     append(b.programs("kubelet.exe"), watch...),
		Log:       log,
		Makes:     b.winKubeletMakes(),
	}, b.in.Settings.Services.Priority), b.afterNSSM(after...)...)
	b.add("kubelet_ready", "http_ready", "Kubelet is healthy",
		&kinds.HTTPReady{URL: loopback(kubeletHealthz), Service: "kubelet", Log: log}, "kubelet")
}

// kubeletRuntimeFlags returns the flags that name the runtime, for versions that take it from the command
// line only.
func (b *build) kubeletRuntimeFlags() []string {
	k := b.kubernetes
	switch {
	case b.in.Runtime.Kind != "containerd":
		// The image pull deadline is that of the upstream start script for Windows, whose images are large.
		return []string{"--network-plugin=cni", "--cni-bin-dir=" + winCNIBin, "--cni-conf-dir=" + winCNIConf,
			"--cni-cache-dir=" + winCNIState + `\cache`,
			"--image-pull-progress-deadline=20m", "--docker-endpoint=" + dockerEndpoint,
			"--pod-infra-container-image=" + b.pause()}
	case k.RuntimeEndpointField:
		return nil
	case k.DockerFlags: // its default is docker
		return []string{"--container-runtime=remote", "--container-runtime-endpoint=" + containerdEndpoint}
	}
	return []string{"--container-runtime-endpoint=" + containerdEndpoint}
}

// kubeletFieldFlags returns flags for settings that later versions have a configuration field for.
func (b *build) kubeletFieldFlags() []string {
	var flags []string
	if _, given := b.in.Kubelet.Config["resolvConf"]; !b.kubernetes.EmptyResolvConf && !given {
		flags = append(flags, "--resolv-conf=")
	}
	if !b.kubernetes.TaintsField {
		var taints []string
		for _, t := range b.firstTaints() {
			taints = append(taints, t.Key+"="+t.Value+":"+t.Effect)
		}
		flags = append(flags, "--register-with-taints="+strings.Join(taints, ","))
	}
	return flags
}

// winRegistered adds the Node's labels and taints and the kubelet's certificate. The Node comes first: its
// gate sees the certificate request and can explain a missing certificate. A Node left from an earlier life
// of the machine passes at once; the certificate is waited for in any case.
func (b *build) winRegistered() {
	if b.in.Network.Kind == "none" { // a CNI may assign networks to nodes in its own way
		b.add("registered", "node_registered", "Node is registered (Ready when the cluster's CNI runs)",
			&kinds.NodeRegistered{Version: b.in.Kubernetes}, "kubelet_ready")
	} else {
		b.add("registered", "node_registered", "Node is registered and has a pod network",
			&kinds.NodeRegistered{PodCIDR: true, Version: b.in.Kubernetes}, "kubelet_ready")
	}
	b.nodeOwned()
	b.tokens()
	if b.in.Join.Kind == "kubeconfig" {
		return // checked before the kubelet started
	}
	server := b.in.APIServer
	if b.byKubeadm() {
		server = "" // kubeadm may take it from the cluster's cluster-info
	}
	b.add("kubelet_certificate", "credentials_ready", "Kubelet has its certificate", &kinds.CredentialsReady{
		Path: kubeletConf, Server: server, CA: steps.Ref("cluster.ca"), Service: "kubelet", Log: b.logFile("kubelet"),
	}, "registered")
}

// winReady adds the last gate, and removes the bootstrap credentials once the kubelet has its own. A Ready
// Node does not prove that: it may be left from an earlier life of the machine, and stays Ready until
// --node-monitor-grace-period has passed.
func (b *build) winReady() {
	after := []string{"kubelet_certificate"}
	if b.in.Join.Kind == "kubeconfig" {
		after[0] = "registered"
	}
	if b.kubeProxy() {
		after = append(after, "kube_proxy_ready")
	}
	if b.in.Network.Kind != "none" {
		after = append(after, "cni_conf")
	}
	after = append(after, "node_labels", "node_taints")
	if b.in.Network.Kind != "none" || b.in.Network.Ready {
		b.add("node_ready", "node_ready", "Node is Ready", &kinds.NodeReady{}, after...)
		after = []string{"node_ready"}
	}
	if b.in.Join.Kind != "kubeconfig" {
		b.add("token_removed", "bootstrap_token", "Bootstrap token is revoked",
			&kinds.BootstrapToken{Absent: true}, after...)
		b.add("bootstrap_removed", "file", "Bootstrap kubeconfig is removed",
			&kinds.File{Path: bootstrapConf, Absent: true, Sensitive: true}, after...)
		after = []string{"token_removed", "bootstrap_removed"}
	}
	b.joined(after...)
}

package recipe

import (
	"nodejoin/plan/compat"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// windows is the recipe of a Windows node.
//
// Its gates: the container runtime answers on its pipe, the kubelet is healthy, the Node has a pod network,
// flanneld has created the HNS network and written subnet.env, the source VIP is reserved (overlay),
// kube-proxy is healthy, the Node is Ready. A CNI that the cluster itself brings (network "none") comes after
// all of them: the last gate is then the kubelet's certificate, unless the plan says otherwise. Cluster steps
// are grouped where possible, since each change between host and cluster costs a round trip.
func (b *build) windows() {
	b.winPrepare()
	b.winPrograms()
	b.winRuntime()
	b.images(containerdPipe, winContainerd+`\ctr.exe`)
	b.credentialProviders()
	b.winAddons()
	b.winKubelet(b.winCredentials())
	b.winRegistered()
	b.serving(winKubeletPKI+`\kubelet-server-current.pem`, b.logFile("kubelet"))
	b.winNetwork()
	b.winProxy()
	b.winNode()
	b.winReady()
}

// winPrepare adds preflight, folders and firewall.
//
// Folders that hold programs, credentials or configuration of services that run as SYSTEM are private, since
// any user may change what is created below C:\. C:\var\lib\kubelet itself is not, as containers read their
// volumes there; the kubelet's settings in it are.
func (b *build) winPrepare() {
	first := b.networkAgrees()
	b.winPreflight(first...)
	b.settings("require")
	b.winWayIn()
	b.winPlaceholder()
	for _, d := range append([]folder{
		{"data_dir", b.dataDir(), "nodejoin's own folder", host.AccessPrivate},
		{"bin_dir", winBin, "Folder of the node's programs", host.AccessPrivate},
		{"kubernetes_dir", winKubernetes, "Folder of Kubernetes configuration", host.AccessPrivate},
		{"pki_dir", winPKI, "Folder of the cluster's CA", host.AccessPrivate},
		{"kubelet_dir", winKubelet, "Folder of the kubelet", host.AccessDefault},
		{"kubelet_pki_dir", winKubeletPKI, "Folder of the kubelet's keys", host.AccessPrivate},
		{"cni_bin_dir", winCNIBin, "Folder of CNI plugins", host.AccessPrivate},
		{"cni_conf_dir", winCNIConf, "Folder of CNI configuration", host.AccessPrivate},
		{"cni_state_dir", winCNIState, "Folder of CNI state", host.AccessPrivate},
		{"kubelet_log_dir", b.logDir("kubelet"), "Folder of the kubelet's log", host.AccessPrivate},
	}, b.runtimeFolders()...) {
		after := []string{"require"}
		switch d.id {
		case "pki_dir":
			after = []string{"kubernetes_dir"}
		case "kubelet_pki_dir":
			after = []string{"kubelet_dir"}
		}
		b.add(d.id, "directory", d.title, &kinds.Directory{Path: d.path, Access: d.access,
			Closed: b.closed(d.id, d.path)}, after...)
	}
	b.winFirewall("firewall_kubelet", "nodejoin-kubelet", "Kubelet API", "tcp", "10250")
	b.winNetworkPrepare()
}

// winPrograms adds all artifacts.
func (b *build) winPrograms() {
	if b.in.Settings.Services.NSSM {
		b.keeping(b.in.Settings.Services.Keep, func() {
			b.archive("nssm", "nssm", kinds.Archive{Source: b.artifact(compat.NSSM), To: winBin, Strip: 2,
				Include: []string{"nssm-*/win64/nssm.exe"}, Services: winServices}, "bin_dir")
		})
	}
	if b.flannel() {
		b.program("agent", AgentArtifact, b.agentPath(), "nodejoin agent, the supervisor of flanneld", "flanneld",
			"data_dir", nodeService)
	} else {
		b.program("agent", AgentArtifact, b.agentPath(), "nodejoin agent", nodeService, "data_dir")
	}
	b.winRuntimeFiles()
	b.archive("kubernetes_node", "Kubernetes "+b.in.Kubernetes+" node programs",
		kinds.Archive{Source: b.artifact(compat.KubernetesNode),
			To: winBin, Strip: 3, Include: []string{"kubernetes/node/bin/*.exe"}, Services: []string{"kubelet", "kube-proxy"},
			Versions: map[string]string{"kubelet.exe": "v" + b.in.Kubernetes}}, "bin_dir")
	b.winNetworkPrograms()
}

package recipe

import (
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// winCredentials adds the CA, the accounts of the components and the kubelet's first credentials.
func (b *build) winCredentials() (ready []string) {
	if !b.byKubeadm() {
		b.add("ca", "file", "The cluster's CA", &kinds.File{Path: winCA, Content: steps.Ref("cluster.ca")}, "pki_dir")
	}
	b.kubeletConfigFile()

	manifests := b.manifests()
	b.accounts()
	ready = b.winJoin()
	return append(ready, manifests...)
}

// winJoin adds the steps that give the kubelet its credentials. It returns the ids of the steps that the
// kubelet waits for.
func (b *build) winJoin() (ready []string) {
	switch b.in.Join.Kind {
	case "kubeconfig":
		return b.winGivenKubeconfig()
	case "kubeadm":
		return b.winKubeadm()
	}
	b.nameFree("bootstrap_kubeconfig")
	b.bootstrapToken("bootstrap_kubeconfig", b.runtime.ready, "kubelet_config", "kubernetes_node")
	b.add("bootstrap_kubeconfig", "kubeconfig", "Bootstrap kubeconfig", &kinds.Kubeconfig{
		Path: bootstrapConf, Server: b.in.APIServer, CA: steps.Ref("cluster.ca"), User: "tls-bootstrap-token-user",
		Token: steps.Ref(JoinToken), Unless: kubeletConf,
		Services: []string{"kubelet"}, Backup: []string{kubeletConf, winKubeletPKI + `\kubelet-client-current.pem`},
	}, "join_token", "kubernetes_dir", "kubelet_pki_dir")
	return []string{"bootstrap_kubeconfig"}
}

// winGivenKubeconfig writes the plan's kubeconfig to the node. The kubelet reads the file when it starts and
// never writes it. An invalid certificate does not become valid by waiting, so the gate has almost no
// timeout.
func (b *build) winGivenKubeconfig() (ready []string) {
	b.nameFree("kubelet_kubeconfig")
	b.add("kubelet_kubeconfig", "file", "Kubeconfig of the kubelet", &kinds.File{
		Path: kubeletConf, Content: b.in.Join.Kubeconfig, Access: host.AccessPrivate, Sensitive: true}, "kubernetes_dir")
	if !b.in.Join.Certificate {
		return []string{"kubelet_kubeconfig"}
	}
	b.add("kubelet_credentials", "credentials_ready", "Kubeconfig of the kubelet is valid for this cluster",
		&kinds.CredentialsReady{
			Path: kubeletConf, Server: b.in.APIServer, CA: steps.Ref("cluster.ca")},
		"kubelet_kubeconfig").Timeout = 5 * time.Second
	return []string{"kubelet_credentials"}
}

// winKubeadm lets kubeadm join the machine. The CA file is written afterwards, since kubeadm refuses to run
// if it exists, and the kubelet's service uses the files that kubeadm wrote.
func (b *build) winKubeadm() (ready []string) {
	b.kubeadmJoin(&kinds.KubeadmJoin{Program: winBin + `\kubeadm.exe`, CRISocket: containerdEndpoint,
		Kubelet: b.logged(b.logFile("kubelet"), b.winKubeletCommand()...),
		Makes:   b.winKubeletMakes(), Log: host.Join("windows", b.logDir("kubelet"), "kubeadm.log")},
		b.runtime.ready, "kubelet_config", "kubernetes_node", "kubelet_log_dir", "firewall_kubelet")
	b.add("ca", "file", "The cluster's CA", &kinds.File{Path: winCA, Content: steps.Ref("cluster.ca")},
		"pki_dir", "kubeadm_join")
	return []string{"kubeadm_join"}
}

package recipe

import (
	"fmt"
	"slices"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/host"
)

// What kubeadm keeps for the kubelet, and where what nodejoin says of it lies: in a
// file beside, which the kubelet lays over kubeadm's.
const (
	kubeadmFlags  = winKubelet + `\kubeadm-flags.env`
	kubeletDropIn = winKubelet + `\config.conf.d`
	kubeadmLog    = winLog + `\kubelet\kubeadm.log`
)

// byKubeadm tells whether kubeadm joins the node.
func (b *build) byKubeadm() bool { return b.in.Join.Kind == "kubeadm" }

// kubeletSettings is the file of nodejoin's settings of the kubelet. kubeadm writes
// config.yaml from the cluster's ConfigMap kubelet-config, which is made for Linux;
// a file of --config-dir counts more, can be changed after the join, and does not
// come into kubeadm's way.
func (b *build) kubeletSettings() string {
	if b.byKubeadm() {
		return kubeletDropIn + `\50-nodejoin.conf`
	}
	return kubeletConfig
}

// winKubeadm: kubeadm joins the machine. The CA comes after it, since kubeadm wants
// none to be there, and the service of the kubelet takes what kubeadm left for it.
func (b *build) winKubeadm() (ready []string) {
	if !b.kubernetes.ConfigDropIns {
		b.fail(&UnsupportedError{"cluster", fmt.Sprintf(`join "kubeadm" is for Kubernetes 1.30 and later, where the kubelet takes settings of a folder beside kubeadm's own; this is %s. Write join "bootstrap_token"`, b.in.Kubernetes)})
		return nil
	}
	args := &steps.KubeadmJoin{Program: winBin + `\kubeadm.exe`, ConfigVersion: "v1beta3", Server: b.in.APIServer, CA: steps.Ref("cluster.ca"),
		Token: steps.Ref("join_token.token"), CRISocket: containerdEndpoint, Kubelet: b.logged(kubeletLog, b.winKubeletCommand()...), Log: kubeadmLog,
		Ignore: b.in.Join.IgnorePreflightErrors}
	if b.kubernetes.JoinConfigV1Beta4 {
		args.ConfigVersion = "v1beta4"
	}
	b.nameFree("kubeadm_join")
	b.bootstrapToken("kubeadm_join", b.runtime.ready, "kubelet_config", "kubernetes_node", "kubelet_log_dir", "firewall_kubelet")
	b.add("kubeadm_join", "kubeadm_join", "kubeadm join", args, "join_token", b.runtime.ready, "kubelet_config", "kubernetes_node",
		"pki_dir", "kubelet_pki_dir", "kubelet_log_dir", "firewall_kubelet")
	b.add("ca", "file", "The cluster's CA", &steps.File{Path: winCA, Content: steps.Ref("cluster.ca")}, "pki_dir", "kubeadm_join")
	return []string{"kubeadm_join"}
}

// kubeadmFlagsGone are flags of the kubelet that some version of kubeadm writes into its
// file and this version of the kubelet does not take: a node that was joined before an
// upgrade has them (kubernetes cmd/kubeadm/app/phases/kubelet/flags.go).
func (b *build) kubeadmFlagsGone() []string {
	return slices.DeleteFunc([]string{"container-runtime", "network-plugin", "pod-infra-container-image"}, func(flag string) bool {
		return compat.CheckFlag(compat.KubeletProgram, flag, b.in.Kubernetes).Status != compat.Removed
	})
}

// dropInDir is the folder of the kubelet's settings beside kubeadm's file.
func (b *build) dropInDir() {
	b.add("kubelet_config_dir", "directory", "Folder of the kubelet's settings", &steps.Directory{Path: kubeletDropIn, Access: host.AccessPrivate}, "kubelet_dir")
}

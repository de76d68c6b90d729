package recipe

import (
	"fmt"
	"slices"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// The kubelet files that kubeadm writes, and the file beside them that holds nodejoin's settings and takes
// precedence.
const (
	kubeadmFlags  = winKubelet + `\kubeadm-flags.env`
	kubeletDropIn = winKubelet + `\config.conf.d`
	kubeadmLog    = winLog + `\kubelet\kubeadm.log`
)

// byKubeadm reports whether kubeadm joins the node.
func (b *build) byKubeadm() bool { return b.in.Join.Kind == "kubeadm" }

// kubeletSettings adds the file with nodejoin's kubelet settings. kubeadm writes config.yaml from the
// cluster's ConfigMap kubelet-config, which is made for Linux. A file in --config-dir overrides it, can be
// changed after the join and does not interfere with kubeadm.
func (b *build) kubeletSettings() string {
	if b.byKubeadm() {
		return kubeletDropIn + `\50-nodejoin.conf`
	}
	return kubeletConfig
}

// winKubeadm lets kubeadm join the machine. The CA file is written afterwards, since kubeadm refuses to run
// if it exists, and the kubelet's service uses the files that kubeadm wrote.
func (b *build) winKubeadm() (ready []string) {
	if !b.kubernetes.ConfigDropIns {
		b.fail(&UnsupportedError{"cluster",
			fmt.Sprintf(`join "kubeadm" needs Kubernetes 1.30 or later, whose kubelet reads a drop-in folder; `+
				`the plan has %s. Use join "bootstrap_token"`, b.in.Kubernetes)})
		return nil
	}
	args := &kinds.KubeadmJoin{Program: winBin + `\kubeadm.exe`, ConfigVersion: "v1beta3", Server: b.in.APIServer,
		CA:    steps.Ref("cluster.ca"),
		Token: steps.Ref("join_token.token"), CRISocket: containerdEndpoint,
		Kubelet: b.logged(kubeletLog, b.winKubeletCommand()...), Log: kubeadmLog,
		Ignore: b.in.Join.IgnorePreflightErrors}
	if b.kubernetes.JoinConfigV1Beta4 {
		args.ConfigVersion = "v1beta4"
	}
	b.nameFree("kubeadm_join")
	b.bootstrapToken("kubeadm_join", b.runtime.ready, "kubelet_config", "kubernetes_node", "kubelet_log_dir",
		"firewall_kubelet")
	b.add("kubeadm_join", "kubeadm_join", "kubeadm join", args, "join_token", b.runtime.ready, "kubelet_config",
		"kubernetes_node",
		"pki_dir", "kubelet_pki_dir", "kubelet_log_dir", "firewall_kubelet")
	b.add("ca", "file", "The cluster's CA", &kinds.File{Path: winCA, Content: steps.Ref("cluster.ca")},
		"pki_dir", "kubeadm_join")
	return []string{"kubeadm_join"}
}

// kubeadmFlagsGone returns kubelet flags that some version of kubeadm writes into its flags file and this
// version of the kubelet rejects. A node that joined before an upgrade has them (kubernetes
// cmd/kubeadm/app/phases/kubelet/flags.go).
func (b *build) kubeadmFlagsGone() []string {
	return slices.DeleteFunc([]string{"container-runtime", "network-plugin", "pod-infra-container-image"},
		func(flag string) bool {
			return compat.CheckFlag(compat.KubeletProgram, flag, b.in.Kubernetes).Status != compat.Removed
		})
}

// dropInDir adds the folder of kubelet settings beside kubeadm's file.
func (b *build) dropInDir() {
	b.add("kubelet_config_dir", "directory", "Folder of the kubelet's settings",
		&kinds.Directory{Path: kubeletDropIn, Access: host.AccessPrivate}, "kubelet_dir")
}

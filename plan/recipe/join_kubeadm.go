package recipe

import (
	"fmt"
	"slices"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// byKubeadm reports whether kubeadm joins the node.
func (b *build) byKubeadm() bool { return b.in.Join.Kind == "kubeadm" }

// kubeadmJoin adds the token and the join by kubeadm. args has what depends on the operating system; after are the
// ids of the steps that the join waits for, besides the folders of keys.
func (b *build) kubeadmJoin(args *kinds.KubeadmJoin, after ...string) {
	if !b.kubernetes.ConfigDropIns {
		b.fail(&UnsupportedError{"cluster",
			fmt.Sprintf(`join "kubeadm" needs Kubernetes 1.30 or later, whose kubelet reads a drop-in folder; `+
				`the plan has %s. Use join "bootstrap_token"`, b.in.Kubernetes)})
		return
	}
	args.ConfigVersion = "v1beta3"
	if b.kubernetes.JoinConfigV1Beta4 {
		args.ConfigVersion = "v1beta4"
	}
	args.Server, args.CA, args.Token = b.in.APIServer, steps.Ref("cluster.ca"), steps.Ref(JoinToken)
	args.Ignore, args.Version = b.in.Join.IgnorePreflightErrors, b.in.Kubernetes
	b.nameFree("kubeadm_join")
	b.bootstrapToken("kubeadm_join", after...)
	b.add("kubeadm_join", "kubeadm_join", "kubeadm join", args,
		append([]string{"join_token", "pki_dir", "kubelet_pki_dir"}, after...)...)
}

// settingsFile is the file with the plan's kubelet settings, in a folder beside kubeadm's config.yaml.
const settingsFile = "50-nodejoin.conf"

// kubeletSettings returns the file for the plan's kubelet settings and the id of its folder's step. kubeadm writes
// config.yaml, which is config here, from the cluster's ConfigMap kubelet-config. A file in --config-dir overrides
// it, can be changed after the join and does not interfere with kubeadm.
func (b *build) kubeletSettings(folder, config string) (path, dir string) {
	if !b.byKubeadm() {
		return config, "kubelet_dir"
	}
	b.add("kubelet_config_dir", "directory", "Folder of the kubelet's settings",
		&kinds.Directory{Path: folder, Access: host.AccessPrivate}, "kubelet_dir")
	return host.Join(b.in.OS, folder, settingsFile), "kubelet_config_dir"
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

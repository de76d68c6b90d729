package recipe

import (
	"fmt"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// Join says how the kubelet gets its first credentials.
type Join struct {
	Kind string        // one of JoinKinds
	TTL  time.Duration // of the token; 0 = its step's default

	// Kubeconfig is the text of the file for the node's kubelet, with every
	// credential in it (kind kubeconfig).
	Kubeconfig string
	// Certificate tells whether that holds a client certificate, not a token.
	Certificate bool

	// IgnorePreflightErrors are kubeadm's names of checks (kind kubeadm).
	IgnorePreflightErrors []string
}

// JoinKinds are the ways to join that have a recipe.
var JoinKinds = []string{"bootstrap_token", "kubeadm", "kubeconfig"}

func checkJoin(in Input) error {
	if !slices.Contains(JoinKinds, in.Join.Kind) {
		return &UnsupportedError{"cluster", fmt.Sprintf("join %q is not known", in.Join.Kind)}
	}
	if in.Join.Kind == "kubeadm" && in.OS != "windows" {
		return &UnsupportedError{"cluster", `join "kubeadm" is for Windows nodes`}
	}
	return nil
}

// winJoin: how the kubelet of the node comes to credentials. It gives the ids of the
// steps that the kubelet waits for.
func (b *build) winJoin() (ready []string) {
	switch b.in.Join.Kind {
	case "kubeconfig":
		return b.winGivenKubeconfig()
	case "kubeadm":
		return b.winKubeadm()
	}
	b.nameFree("bootstrap_kubeconfig")
	b.bootstrapToken("bootstrap_kubeconfig", b.runtime.ready, "kubelet_config", "kubernetes_node")
	b.add("bootstrap_kubeconfig", "kubeconfig", "Bootstrap kubeconfig", &steps.Kubeconfig{
		Path: bootstrapConf, Server: b.in.APIServer, CA: steps.Ref("cluster.ca"), User: "tls-bootstrap-token-user",
		Token: steps.Ref("join_token.token"), Unless: kubeletConf,
		Services: []string{"kubelet"}, Backup: []string{kubeletConf, winKubeletPKI + `\kubelet-client-current.pem`},
	}, "join_token", "kubernetes_dir", "kubelet_pki_dir")
	return []string{"bootstrap_kubeconfig"}
}

// bootstrapToken mints a token for the step needed.
func (b *build) bootstrapToken(needed string, after ...string) {
	join := &steps.BootstrapToken{}
	if b.in.Join.TTL > 0 {
		join.TTL = b.in.Join.TTL.String()
	}
	for _, m := range b.in.Manifests { // without their bindings a token is of no use
		after = append(after, m.ID())
	}
	b.add("join_token", "bootstrap_token", "Bootstrap token", join, after...).OnlyIf = needed
}

// nameFree refuses a machine that is not the Node of its name, where the step needed
// says that it holds no credentials of that Node. The check of a run asks it, before
// anything is changed.
func (b *build) nameFree(needed string) {
	b.add("name_free", "node_name_free", "No other machine is the Node "+b.in.Node, &steps.NodeNameFree{Address: b.managementIP()}, "require").OnlyIf = needed
}

// winGivenKubeconfig: the kubeconfig of the plan, put on the node for the kubelet. It
// reads the file at its start and does not write it. Nothing makes a certificate hold
// that does not, so its gate has no time to wait.
func (b *build) winGivenKubeconfig() (ready []string) {
	b.nameFree("kubelet_kubeconfig")
	b.add("kubelet_kubeconfig", "file", "Kubeconfig of the kubelet", &steps.File{
		Path: kubeletConf, Content: b.in.Join.Kubeconfig, Access: host.AccessPrivate, Sensitive: true}, "kubernetes_dir")
	if !b.in.Join.Certificate {
		return []string{"kubelet_kubeconfig"}
	}
	b.add("kubelet_credentials", "credentials_ready", "Kubeconfig of the kubelet is of this cluster and valid", &steps.CredentialsReady{
		Path: kubeletConf, Server: b.in.APIServer, CA: steps.Ref("cluster.ca")}, "kubelet_kubeconfig").Timeout = 5 * time.Second
	return []string{"kubelet_credentials"}
}

// serving: with serverTLSBootstrap, the certificate that the kubelet serves its API
// with. Its request is waited for where the machine has none yet; later ones, with
// which the kubelet renews it, are approved by the run that finds them pending. current
// is the file in which the kubelet keeps the one that it serves with.
func (b *build) serving(current, log string) {
	if on, _ := b.in.Kubelet.Config["serverTLSBootstrap"].(bool); !on {
		return
	}
	own := steps.ServingCertificate{Addresses: b.addresses()}
	first := own
	first.Wait = true
	after := "registered"
	if b.in.Join.Kind != "kubeconfig" {
		after = "kubelet_certificate"
	}
	b.add("serving_request", "serving_certificate", "First serving certificate of the kubelet is approved", &first, after).OnlyIf = "serving_certificate"
	b.add("serving_certificate", "file_ready", "Kubelet has its serving certificate", &steps.FileReady{
		Path: current, Contains: "BEGIN CERTIFICATE", Service: "kubelet", Log: log}, "serving_request")
	b.add("serving_renewal", "serving_certificate", "Renewed serving certificate of the kubelet is approved", &own, "serving_certificate")
}

// firstTaints are those that the kubelet registers its Node with: the plan's, and the one
// that keeps pods away until the step joined. It gives them only to a Node that it makes.
func (b *build) firstTaints() []kube.Taint {
	return append(slices.Clone(b.in.Taints), kube.Joining)
}

// joined: the Node takes pods, once everything else of it holds. The compiler puts it
// behind the plan's own steps, too.
func (b *build) joined(after ...string) {
	b.add(JoinedStep, "node_joined", "Node takes pods", &steps.NodeJoined{Plan: b.in.Cluster}, after...)
}

// JoinedStep is the id of the last step of a node.
const JoinedStep = "joined"

// nodeOwned: labels and taints of the Node, also where the plan gives none, so that those
// of an earlier plan go.
func (b *build) nodeOwned() {
	labels, taints := b.in.Labels, b.in.Taints
	if labels == nil {
		labels = map[string]string{}
	}
	if taints == nil {
		taints = []kube.Taint{}
	}
	b.add("node_labels", "node_labels", "Labels of the Node", &steps.NodeLabels{Labels: labels}, "registered")
	b.add("node_taints", "node_taints", "Taints of the Node", &steps.NodeTaints{Taints: taints}, "registered")
}

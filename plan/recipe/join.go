package recipe

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// JoinToken is the output with what a kubelet gets its certificate by.
const JoinToken = "join_token.token"

// bootstrapToken mints a token for the step needed.
func (b *build) bootstrapToken(needed string, after ...string) {
	join := &kinds.BootstrapToken{}
	if b.in.Join.TTL > 0 {
		join.TTL = b.in.Join.TTL.String()
	}
	for _, m := range b.in.Manifests { // without these bindings a token is useless
		after = append(after, m.ID())
	}
	b.add("join_token", "bootstrap_token", "Bootstrap token", join, append(after, b.needs...)...).OnlyIf = needed
}

// nameFree rejects a machine that is not the Node of its name, if the step needed reports that the machine
// holds no credentials of that Node. It runs in the check, before anything is changed.
func (b *build) nameFree(needed string) {
	b.add("name_free", "node_name_free", "No other machine is the Node "+b.in.Node,
		&kinds.NodeNameFree{Address: b.managementIP()}, "require").OnlyIf = needed
}

// serving adds the steps for the kubelet's serving certificate under serverTLSBootstrap. The first request is
// waited for if the machine has no certificate yet; later requests, which renew it, are approved by the run
// that finds them pending. current is the file in which the kubelet keeps its certificate.
func (b *build) serving(current, log string) {
	if on, _ := b.in.Kubelet.Config["serverTLSBootstrap"].(bool); !on {
		return
	}
	own := kinds.ServingCertificate{Addresses: b.addresses()}
	first := own
	first.Wait = true
	after := "registered"
	if b.in.Join.Kind != "kubeconfig" {
		after = "kubelet_certificate"
	}
	b.add("serving_request", "serving_certificate", "First serving certificate of the kubelet is approved", &first,
		after).OnlyIf = "serving_certificate"
	b.add("serving_certificate", "file_ready", "Kubelet has its serving certificate", &kinds.FileReady{
		Path: current, Contains: "BEGIN CERTIFICATE", Service: "kubelet", Log: log}, "serving_request")
	b.add("serving_renewal", "serving_certificate", "Renewed serving certificate of the kubelet is approved", &own,
		"serving_certificate")
}

// firstTaints returns the taints that the kubelet registers its Node with: the plan's, and the one that keeps
// pods away until the step joined. The kubelet sets them only on a Node that it creates.
func (b *build) firstTaints() []kube.Taint {
	return append(slices.Clone(b.in.Taints), kube.Joining)
}

// joined lets pods onto the Node once everything else is done. The compiler puts it behind the plan's own
// steps, too.
func (b *build) joined(after ...string) {
	b.add(JoinedStep, "node_joined", "Node takes pods", &kinds.NodeJoined{Plan: b.in.Plan}, after...)
}

// JoinedStep is the id of the last step of a node.
const JoinedStep = "joined"

// nodeOwned sets labels and taints of the Node. It runs even if the plan gives none, so that those of an
// earlier plan are removed.
func (b *build) nodeOwned() {
	labels, taints := b.in.Labels, b.in.Taints
	if labels == nil {
		labels = map[string]string{}
	}
	if taints == nil {
		taints = []kube.Taint{}
	}
	b.add("node_labels", "node_labels", "Labels of the Node", &kinds.NodeLabels{Labels: labels}, "registered")
	b.add("node_taints", "node_taints", "Taints of the Node", &kinds.NodeTaints{Taints: taints}, "registered")
}

// closed are the private files of a folder that no step writes: what nodejoin keeps, and on Linux the kubelet's
// credentials, which the kubelet closes itself. On Windows the file has the access of its folder, and Wine does not
// give it that.
func (b *build) closed(id, dir string) []string {
	switch {
	case id == "data_dir":
		return []string{host.Join(b.in.OS, dir, "record.json"), host.Join(b.in.OS, dir, "history.json")}
	case id == "kubernetes_dir" && b.in.OS == "linux":
		return []string{linKubeletConf}
	}
	return nil
}

// seen looks up the Node before anything is changed: a kubelet whose Node was deleted has to be restarted.
func (b *build) seen() {
	b.add("seen", "node_seen", "What the cluster knows about the Node", &kinds.NodeSeen{})
}

// missing reports that the Node is gone, for services that keep running without it.
func missing() string { return steps.Ref("seen.missing") }

// lifeOf returns the values that differ for each life of a Node: flanneld reads its subnet from the Node, and
// publishes how it is reached, only when it starts.
func lifeOf() []string {
	return []string{steps.Ref("registered.uid"), steps.Ref("registered.pod_cidr")}
}

package steps

import (
	"time"

	"nodejoin/steps/kube"
)

var bootstrapTokenKind = Kind{Name: "bootstrap_token", Place: OnCluster, Doc: "a short-lived bootstrap token of this node, or the absence of any", Outputs: []string{"token"},
	New: func() any { return &BootstrapToken{} }}

var nodeRegisteredKind = Kind{Name: "node_registered", Place: OnCluster, Timeout: 5 * time.Minute, Doc: "a gate: the Node object exists and has its pod CIDR", Outputs: []string{"pod_cidr"},
	New: func() any { return &NodeRegistered{} }}

var nodeReadyKind = Kind{Name: "node_ready", Place: OnCluster, Timeout: 5 * time.Minute, Doc: "a gate: the Node is Ready",
	New: func() any { return &NodeReady{} }}

var nodeLabelsKind = Kind{Name: "node_labels", Place: OnCluster, Doc: "labels of the Node; others stay",
	New: func() any { return &NodeLabels{} }}

var nodeTaintsKind = Kind{Name: "node_taints", Place: OnCluster, Doc: "taints of the Node; others stay",
	New: func() any { return &NodeTaints{} }}

var serviceAccountKind = Kind{Name: "service_account", Place: OnCluster, Doc: "a ServiceAccount with its role and binding",
	New: func() any { return &ServiceAccount{} }}

var serviceAccountTokenKind = Kind{Name: "service_account_token", Place: OnCluster, Doc: "a token of a ServiceAccount, minted when it is needed", Outputs: []string{"token"},
	New: func() any { return &ServiceAccountToken{} }}

// BootstrapToken mints a token (output "token", sensitive) each time it runs; the
// spec's only_if keeps it from running when nothing needs one. With Absent it
// removes every token that was minted for the node.
type BootstrapToken struct {
	TTL    string `json:"ttl,omitempty" doc:"life of the token, default 15m"`
	Absent bool   `json:"absent,omitempty" doc:"remove the tokens of this node"`
}

// NodeRegistered waits for the Node and its pod CIDR, and says of the certificate
// request what it sees. Outputs: pod_cidr.
type NodeRegistered struct {
	PodCIDR bool `json:"pod_cidr,omitempty" doc:"wait for spec.podCIDR too"`
}

// NodeReady waits for the Ready condition.
type NodeReady struct{}

// NodeLabels keeps labels of the Node.
type NodeLabels struct {
	Labels map[string]string `json:"labels" doc:"labels that the Node must carry"`
}

// NodeTaints keeps taints of the Node.
type NodeTaints struct {
	Taints []kube.Taint `json:"taints" doc:"taints that the Node must carry"`
}

// ServiceAccount keeps an account of a node component.
type ServiceAccount struct {
	Namespace   string      `json:"namespace" doc:"namespace of the account"`
	Name        string      `json:"name" doc:"name of the account"`
	ClusterRole string      `json:"cluster_role" doc:"ClusterRole to bind"`
	Rules       []kube.Rule `json:"rules,omitempty" doc:"rules of the ClusterRole, where nodejoin makes it"`
}

// ServiceAccountToken mints a token (output "token", sensitive) each time it runs; see only_if.
type ServiceAccountToken struct {
	Namespace string `json:"namespace" doc:"namespace of the account"`
	Name      string `json:"name" doc:"name of the account"`
	TTL       string `json:"ttl,omitempty" doc:"life of the token, default 8760h; the API server may shorten it"`
}

package sandbox

import (
	"context"
	"net/netip"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// Cluster is a Kubernetes cluster in a file: it answers the requests of a join and refuses what a real cluster
// refuses. Several machines and processes may use it at once.
type Cluster struct {
	dir   string
	state *document
}

// clusterState is cluster.json.
type clusterState struct {
	clusterHead
	Nodes      table[kube.Node]           `json:"nodes"`
	Tokens     table[bootstrap]           `json:"tokens"`               // by id
	Accounts   table[account]             `json:"accounts"`             // by namespace/name
	Roles      table[[]kube.Rule]         `json:"roles"`                // ClusterRoles
	Requests   table[kube.SigningRequest] `json:"requests"`             // by number, oldest first
	Serving    table[servingRequest]      `json:"serving,omitzero"`     // by number, the oldest first
	Subnets    table[netip.Prefix]        `json:"subnets"`              // by node; kept when a node is deleted
	Pods       table[boundPod]            `json:"pods,omitzero"`        // by UID
	ConfigMaps table[map[string]string]   `json:"config_maps,omitzero"` // by namespace/name
	Budgets    table[int]                 `json:"budgets,omitzero"`     // evictions that each budget still allows
	Leases     table[kube.Lease]          `json:"leases,omitzero"`      // by name
	Objects    table[object]              `json:"objects,omitzero"`     // by objectKey
	Namespaces table[namespace]           `json:"namespaces,omitzero"`  // by name
	Services   table[kube.Service]        `json:"services"`             // by namespace/name
}

// clusterHead is what a cluster is created with and what rarely changes.
type clusterHead struct {
	Server   string    `json:"server"`
	Version  string    `json:"version"`
	PodCIDR  string    `json:"pod_cidr"`
	CA       authority `json:"ca"`
	TokenKey []byte    `json:"token_key"` // signs the tokens of service accounts
	Down     bool      `json:"down,omitempty"`
}

func (s *clusterState) init() {}

func (s *clusterState) rest() any { return s.clusterHead }

func (s *clusterState) tables() map[string]journaled {
	return map[string]journaled{"nodes": &s.Nodes, "tokens": &s.Tokens, "accounts": &s.Accounts, "roles": &s.Roles,
		"requests": &s.Requests, "serving": &s.Serving, "subnets": &s.Subnets, "pods": &s.Pods,
		"config_maps": &s.ConfigMaps, "budgets": &s.Budgets, "leases": &s.Leases, "objects": &s.Objects,
		"namespaces": &s.Namespaces, "services": &s.Services}
}

type bootstrap struct {
	Node    string    `json:"node"`
	Secret  string    `json:"secret"`
	Expires time.Time `json:"expires"`
}

type account struct {
	Roles   []string `json:"roles"` // ClusterRoles bound to it
	OwnNode bool     `json:"own_node,omitempty"`
}

// servingRequest is a kubelet's request for a serving certificate, with the machine that waits for it.
type servingRequest struct {
	kube.ServingRequest
	Machine Config `json:"machine"`
	Dir     string `json:"dir"` // the kubelet's --cert-dir
}

// boundPod is a pod on a node, with the disruption budget that covers it; "" = none.
type boundPod struct {
	kube.Pod
	Node   string `json:"node"`
	Budget string `json:"budget,omitempty"`
}

// object is an object in the cluster with the managers of its fields, as in server-side apply. A list is one
// field: the sandbox does not know the keys of list elements.
type object struct {
	Fields map[string]any `json:"fields"`
	// Managers by the JSON pointer (RFC 6901) of the field.
	Managers map[string][]string `json:"managers"`
}

// namespace of a simulated cluster, with what runs in it.
type namespace struct {
	kube.Namespace
	Pods     []kube.PodSpec  `json:"pods"`
	Services []playedService `json:"services"`
}

type playedService struct {
	kube.ServiceSpec
	ClusterIP string
	NodePort  int32
}

// view calls f with the state. f must copy what it keeps.
func (k *Cluster) view(ctx context.Context, f func(*clusterState) error) error {
	return k.state.view(ctx, func(c contents) error { return f(c.(*clusterState)) })
}

// change calls f under the cluster's lock and saves the state. If f fails, its changes are discarded.
func (k *Cluster) change(ctx context.Context, f func(*clusterState) error) error {
	return k.state.change(ctx, func(c contents) error { return f(c.(*clusterState)) })
}

// ask reads the cluster through its API, which fails after SetDown.
func (k *Cluster) ask(ctx context.Context, op, subject string, f func(*clusterState) error) error {
	return k.call(ctx, k.view, op, subject, f)
}

// tell changes the cluster through its API.
func (k *Cluster) tell(ctx context.Context, op, subject string, f func(*clusterState) error) error {
	return k.call(ctx, k.change, op, subject, f)
}

func (k *Cluster) call(ctx context.Context, use func(context.Context, func(*clusterState) error) error, op,
	subject string, f func(*clusterState) error) error {
	err := use(ctx, func(s *clusterState) error {
		if s.Down {
			return kube.ErrUnreachable
		}
		return f(s)
	})
	if err != nil {
		return &host.Error{Op: op, Subject: subject, Err: err}
	}
	return nil
}

package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// ClusterConfig describes a sandbox cluster. It is used when the cluster is created; later values are ignored.
type ClusterConfig struct {
	Dir     string // folder of the cluster, created if it is missing
	PodCIDR string // default 10.244.0.0/16; of two families the IPv4 one, which comes first. Each node gets a /24
	Version string // default "v1.36.3"; also that of kubelets whose program names none
	DNSIP   string // address of its DNS service, default 10.96.0.10
	Server  string // URL of an API server that does not exist, default https://kubernetes.sandbox:6443
}

// Cluster is a Kubernetes cluster in a file: it answers the requests of a join and refuses what a real cluster
// refuses. Several machines and processes may use it at once.
type Cluster struct {
	dir   string
	state *document
}

var _ kube.API = (*Cluster)(nil)

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
	Roles []string `json:"roles"` // ClusterRoles bound to it
}

// OpenCluster opens a cluster and creates it if it is missing. If another process uses the cluster, it waits
// until ctx ends.
func OpenCluster(ctx context.Context, c ClusterConfig) (*Cluster, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil || c.Dir == "" {
		return nil, fmt.Errorf("sandbox cluster: folder %q: %w", c.Dir, errors.Join(err, fs.ErrInvalid))
	}
	ipv4, _, _ := strings.Cut(c.PodCIDR, ",")
	prefix, err := netip.ParsePrefix(or(ipv4, "10.244.0.0/16"))
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() > 24 {
		return nil, fmt.Errorf("sandbox cluster: pod CIDR %q is no IPv4 network of /24 or wider", c.PodCIDR)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("sandbox cluster: %w", err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	k := &Cluster{dir: dir, state: openDocument(file("cluster.json"), file("cluster.journal"), file("cluster.lock"),
		func() contents { return &clusterState{} })}
	made := false
	err = k.view(ctx, func(s *clusterState) error {
		made = s.CA.Cert != ""
		return nil
	})
	if err == nil && !made {
		c.PodCIDR = prefix.Masked().String()
		err = k.change(ctx, func(s *clusterState) error { return s.make(c) })
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox cluster %s: %w", dir, err)
	}
	return k, nil
}

// make initializes a new cluster.
func (s *clusterState) make(c ClusterConfig) (err error) {
	if s.CA.Cert != "" {
		return nil
	}
	s.Server = or(c.Server, "https://kubernetes.sandbox:6443")
	s.Version = or(c.Version, "v1.36.3")
	s.PodCIDR = c.PodCIDR
	for _, svc := range dnsServices(c.DNSIP) {
		s.Services.set(svc.String(), svc)
	}
	// Every cluster has these roles, and a join binds to them.
	for _, role := range []string{"system:node-proxier", "cluster-admin", "view"} {
		s.Roles.set(role, []kube.Rule{}) // not nil, which would remove the entry
	}
	s.TokenKey = make([]byte, 32)
	if _, err := rand.Read(s.TokenKey); err != nil {
		return err
	}
	s.CA, err = newAuthority()
	return err
}

// Upgrade changes the version of the API server, as an upgrade of the control plane does.
func (k *Cluster) Upgrade(ctx context.Context, version string) error {
	if info, err := k.Info(ctx); err != nil || info.Version == version {
		return err
	}
	return k.change(ctx, func(s *clusterState) error {
		s.Version = version
		return nil
	})
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

// SetDown makes every call of the API fail with kube.ErrUnreachable, or work again.
func (k *Cluster) SetDown(ctx context.Context, down bool) error {
	return k.change(ctx, func(s *clusterState) error {
		s.Down = down
		return nil
	})
}

// Info returns the facts of the cluster.
func (k *Cluster) Info(ctx context.Context) (kube.Info, error) {
	var out kube.Info
	err := k.ask(ctx, "read", "the cluster", func(s *clusterState) error {
		hash, err := s.CA.hash()
		out = kube.Info{Server: s.Server, CA: s.CA.Cert, CAHash: hash, Version: s.Version}
		return err
	})
	return out, err
}

// Node returns a registered Node.
func (k *Cluster) Node(ctx context.Context, name string) (kube.Node, error) {
	var out kube.Node
	err := k.ask(ctx, "read node", name, func(s *clusterState) error {
		n, ok := s.Nodes.edit(name)
		if !ok {
			return fs.ErrNotExist
		}
		out = n
		return nil
	})
	return out, err
}

// BootstrapTokens lists the tokens of a node that have not expired. In a real cluster the token controller
// deletes expired ones.
func (k *Cluster) BootstrapTokens(ctx context.Context, node string) ([]kube.BootstrapToken, error) {
	var out []kube.BootstrapToken
	err := k.ask(ctx, "list bootstrap tokens of", node, func(s *clusterState) error {
		for id, t := range s.Tokens.all() {
			if t.Node == node && time.Now().Before(t.Expires) {
				out = append(out, kube.BootstrapToken{ID: id, Expires: t.Expires})
			}
		}
		return nil
	})
	return out, err
}

// MintToken creates a token in the format of kubeadm and the API server: an id of 6 and a secret of 16
// lower-case letters and digits. If ttl is not positive, the token is already expired.
func (k *Cluster) MintToken(ctx context.Context, node string, ttl time.Duration) (kube.BootstrapToken, error) {
	t := kube.BootstrapToken{ID: randomHex(3), Secret: randomHex(8),
		Expires: time.Now().Add(ttl).UTC().Truncate(time.Second)}
	err := k.tell(ctx, "mint bootstrap token of", node, func(s *clusterState) error {
		for id, old := range s.Tokens.all() {
			if time.Since(old.Expires) > time.Hour {
				s.Tokens.remove(id)
			}
		}
		s.Tokens.set(t.ID, bootstrap{Node: node, Secret: t.Secret, Expires: t.Expires})
		return nil
	})
	return t, err
}

// randomHex returns 2n characters. crypto/rand does not fail.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// RevokeToken deletes a token.
func (k *Cluster) RevokeToken(ctx context.Context, id string) error {
	return k.tell(ctx, "revoke bootstrap token", id, func(s *clusterState) error {
		s.Tokens.remove(id)
		return nil
	})
}

// SigningRequests lists the requests for a node, newest first.
func (k *Cluster) SigningRequests(ctx context.Context, node string) ([]kube.SigningRequest, error) {
	var out []kube.SigningRequest
	err := k.ask(ctx, "list signing requests of", node, func(s *clusterState) error {
		for _, r := range s.Requests.all() {
			if strings.HasPrefix(r.Name, "node-csr-"+node+"-") {
				out = append(out, r)
			}
		}
		slices.Reverse(out)
		return nil
	})
	return out, err
}

// SetLabels changes labels of a node.
func (k *Cluster) SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error {
	return k.onNode(ctx, "label node", node, func(n *kube.Node) {
		for _, key := range remove {
			delete(n.Labels, key)
		}
		for key, v := range set {
			n.Labels = with(n.Labels, key, v)
		}
	})
}

// SetTaints changes taints of a node.
func (k *Cluster) SetTaints(ctx context.Context, node string, set, remove []kube.Taint) error {
	return k.onNode(ctx, "taint node", node, func(n *kube.Node) {
		for _, t := range slices.Concat(remove, set) {
			n.Taints = slices.DeleteFunc(n.Taints, func(have kube.Taint) bool {
				return have.Key == t.Key && have.Effect == t.Effect
			})
		}
		n.Taints = append(n.Taints, set...)
	})
}

package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

var _ kube.API = (*Cluster)(nil)

// Close does nothing: all state is in files.
func (k *Cluster) Close() {}

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
		return nil, fmt.Errorf("sandbox cluster: pod CIDR %q is not an IPv4 network of /24 or wider", c.PodCIDR)
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
	return t, k.keepToken(ctx, node, t)
}

// MintCertificate signs a certificate of the node. The token of its ID authenticates nobody.
func (k *Cluster) MintCertificate(ctx context.Context, node string, ttl time.Duration) (kube.BootstrapToken, error) {
	t := kube.BootstrapToken{ID: randomHex(3), Expires: time.Now().Add(ttl).UTC().Truncate(time.Second)}
	err := k.ask(ctx, "sign certificate of", node, func(s *clusterState) error {
		cert, key, err := s.CA.nodeCertificateFor(node, ttl)
		t.Certificate = cert + key
		return err
	})
	if err != nil {
		return kube.BootstrapToken{}, err
	}
	return t, k.keepToken(ctx, node, t)
}

// keepToken notes a token, and forgets old ones.
func (k *Cluster) keepToken(ctx context.Context, node string, t kube.BootstrapToken) error {
	return k.tell(ctx, "mint bootstrap token of", node, func(s *clusterState) error {
		for id, old := range s.Tokens.all() {
			if time.Since(old.Expires) > time.Hour {
				s.Tokens.remove(id)
			}
		}
		s.Tokens.set(t.ID, bootstrap{Node: node, Secret: t.Secret, Expires: t.Expires})
		return nil
	})
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

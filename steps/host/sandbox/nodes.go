package sandbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"nodejoin/steps/kube"
)

// From here on: the cluster as the kubelet and the controllers use it.

// joined is what a kubelet gets in return for its bootstrap token, or for a certificate of its own Node.
type joined struct {
	cert, key string // PEM
}

// join signs a kubelet's first certificate. In a real cluster the API server, the approver and the signer do
// this together.
func (k *Cluster) join(ctx context.Context, node string, by user) (joined, error) {
	var out joined
	err := k.tell(ctx, "join node", node, func(s *clusterState) error {
		user, err := s.userOf(by, time.Now())
		if err != nil {
			return err
		}
		if own := "system:node:" + node; strings.HasPrefix(user, "system:node:") && user != own {
			// NodeRestriction (kubernetes plugin/pkg/admission/noderestriction); nobody approves it, either.
			return fmt.Errorf("%w: %s requests a certificate of %s", kube.ErrForbidden, user, own)
		}
		if out.cert, out.key, err = s.CA.nodeCertificate(node); err != nil {
			return err
		}
		s.Requests.set(s.Requests.nextNumber(),
			kube.SigningRequest{Name: "node-csr-" + node + "-" + randomHex(8), Requestor: user,
				Created: time.Now().UTC().Truncate(time.Second), Approved: true, Issued: true,
				Message: "Auto approving kubelet client certificate after SubjectAccessReview."})
		return nil
	})
	return out, err
}

// authenticated reports whether the API server accepts a bearer token.
func (k *Cluster) authenticated(ctx context.Context, token string) error {
	return k.accepts(ctx, user{Token: token})
}

// accepts reports whether the API server accepts the user of a kubeconfig.
func (k *Cluster) accepts(ctx context.Context, by user) error {
	return k.ask(ctx, "authenticate", "a client", func(s *clusterState) error {
		_, err := s.userOf(by, time.Now())
		return err
	})
}

// userOf is who authenticates: a client certificate counts before a token.
func (s *clusterState) userOf(by user, now time.Time) (string, error) {
	if len(by.Cert) == 0 {
		return s.authenticate(by.Token, now)
	}
	if _, err := tls.X509KeyPair(by.Cert, by.Key); err != nil {
		return "", fmt.Errorf("%w: %w", kube.ErrUnauthorized, err)
	}
	node, ok := s.CA.nodeOf(string(by.Cert), now)
	if !ok {
		return "", fmt.Errorf("%w: the client certificate is of another CA, is not a Node's or has ended",
			kube.ErrUnauthorized)
	}
	return "system:node:" + node, nil
}

// register creates the Node object or finds it, and marks it Ready. As with a real kubelet, only a Node that it
// creates gets the labels and taints, except for the labels that the kubelet always sets. cert is the kubelet's
// client certificate in PEM.
func (k *Cluster) register(ctx context.Context, cert string, want kube.Node) error {
	return k.tell(ctx, "register node", want.Name, func(s *clusterState) error {
		if name, ok := s.CA.nodeOf(cert, time.Now()); !ok || name != want.Name {
			return fmt.Errorf("%w: the client certificate is not one of %s", kube.ErrUnauthorized, want.Name)
		}
		n, ok := s.Nodes.edit(want.Name)
		if !ok {
			subnet, err := s.subnet(want.Name)
			if err != nil {
				return err
			}
			n = kube.Node{Name: want.Name, UID: randomHex(16), PodCIDR: subnet.String(), Labels: want.Labels,
				Taints: want.Taints}
		}
		for _, key := range []string{"kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname",
			"node.kubernetes.io/windows-build"} {
			if v, ok := want.Labels[key]; ok {
				n.Labels = with(n.Labels, key, v)
			}
		}
		n.InternalIP = want.InternalIP
		n.KubeletVersion = or(want.KubeletVersion, s.Version)
		n.Heartbeat = time.Now()
		n.Ready, n.ReadyReason = true, "KubeletReady: kubelet is posting ready status"
		s.Nodes.set(want.Name, n)
		return nil
	})
}

// lost marks a Node whose kubelet no longer runs. A missing Node is not an error.
func (k *Cluster) lost(ctx context.Context, node string) error {
	return k.change(ctx, func(s *clusterState) error {
		if n, ok := s.Nodes.edit(node); ok {
			n.Ready, n.ReadyReason = false, "NodeStatusUnknown: Kubelet stopped posting node status."
			s.Nodes.set(node, n)
		}
		return nil
	})
}

// subnet returns the pod subnet of a node, as the controller manager assigns it: the first free /24, and the
// same one again for a node that returns.
func (s *clusterState) subnet(node string) (netip.Prefix, error) {
	if p, ok := s.Subnets.get(node); ok {
		return p, nil
	}
	all, err := netip.ParsePrefix(s.PodCIDR)
	if err != nil {
		return netip.Prefix{}, err
	}
	taken := map[netip.Prefix]bool{}
	for _, p := range s.Subnets.all() {
		taken[p] = true
	}
	for at := all.Addr(); all.Contains(at); {
		p := netip.PrefixFrom(at, 24)
		if !taken[p] {
			s.Subnets.set(node, p)
			return p, nil
		}
		b := at.As4()
		n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 + 256
		if n < 256 {
			break
		}
		at = netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), 0})
	}
	return netip.Prefix{}, errors.New("no /24 of the pod network " + s.PodCIDR + " is left")
}

package sandbox

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"slices"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// servingFile is the file in which the kubelet keeps the certificate and its key (kubernetes
// pkg/kubelet/certificate/kubelet.go, the pair "kubelet-server").
const servingFile = "kubelet-server-current.pem"

// requestServing creates the request of a kubelet with serverTLSBootstrap, unless it has a serving certificate
// or a pending request.
func (h *Host) requestServing(ctx context.Context, c *Cluster, p program, node, ip string) error {
	dir := p.flag("cert-dir")
	if dir == "" {
		return nil
	}
	if _, err := h.read(host.Join(h.cfg.OS, dir, servingFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.tell(ctx, "request serving certificate of", node, func(s *clusterState) error {
		for _, q := range s.Serving.all() {
			if q.CommonName == "system:node:"+node && !q.Approved && !q.Denied {
				return nil
			}
		}
		q := servingRequest{Machine: h.cfg, Dir: dir}
		q.SigningRequest = kube.SigningRequest{Name: "csr-" + randomHex(3), Requestor: "system:node:" + node,
			Created: time.Now().UTC().Truncate(time.Second)}
		q.Groups, q.Usages = []string{"system:nodes", "system:authenticated"}, []string{"digital signature", "server auth"}
		q.CommonName, q.Organization = "system:node:"+node, []string{"system:nodes"}
		q.DNSNames, q.IPs = []string{node}, []string{ip}
		s.Serving.set(s.Serving.nextNumber(), q)
		return nil
	})
}

// ServingRequests lists the requests of a node, newest first.
func (k *Cluster) ServingRequests(ctx context.Context, node string) ([]kube.ServingRequest, error) {
	var out []kube.ServingRequest
	err := k.ask(ctx, "list serving requests of", node, func(s *clusterState) error {
		for _, q := range s.Serving.all() {
			if q.Requestor == "system:node:"+node {
				out = append(out, copied(q.ServingRequest))
			}
		}
		slices.Reverse(out)
		return nil
	})
	return out, err
}

// ApproveRequest approves and signs a request. The kubelet gets the certificate at once.
func (k *Cluster) ApproveRequest(ctx context.Context, name string) error {
	var q servingRequest
	var cert authority
	err := k.tell(ctx, "approve request", name, func(s *clusterState) error {
		number := ""
		for n, have := range s.Serving.all() {
			if have.Name == name {
				number = n
				break
			}
		}
		var found bool
		if q, found = s.Serving.edit(number); !found {
			return fs.ErrNotExist
		}
		q.Approved, q.Issued = true, true
		s.Serving.set(number, q)
		var err error
		cert, err = issue(&s.CA, pkix.Name{CommonName: q.CommonName, Organization: q.Organization}, 365*24*time.Hour)
		return err
	})
	if err != nil {
		return err
	}
	h, err := Open(ctx, q.Machine)
	if err != nil {
		return err
	}
	return h.change(ctx, func(s *state) error {
		return h.write(ctx, s, host.Join(h.cfg.OS, q.Dir, servingFile), cert.Cert+cert.Key, host.AccessPrivate)
	})
}

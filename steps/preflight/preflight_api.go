package preflight

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// apiCertificate judges the API server as programs of the node will: by the name that they
// ask, and the cluster's CA. The times of the certificate are held against the server's
// clock, as clock-skew tells of the machine's.
func apiCertificate(ctx context.Context, s *survey) ([]observed, error) {
	answer, err := s.api(ctx)
	if err != nil || s.q.CA == "" || steps.HasRef(s.q.CA) || len(answer.Certificates) == 0 {
		return nil, nil //nolint:nilerr // api-name and api-unreachable report it
	}
	u, err := url.Parse(s.q.APIServer)
	if err != nil {
		return nil, err
	}
	shown, err := verifyServer(answer, s.q.CA, u.Hostname())
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil, nil
	case shown == nil:
		return nil, err
	case errors.As(err, &name):
		return found("give api_server a name or address that the certificate has, or the API server a certificate "+
			"for this one (kubeadm: certSANs)",
			"the certificate that %s shows the machine is for %s, not for %s", s.q.APIServer, certNames(shown), u.Hostname())
	case errors.As(err, &authority):
		return found("correct api_server, or what stands between the machine and it (a load balancer of another "+
			"cluster, a proxy that opens TLS); the CA is that of the plan's kubeconfig",
			"the certificate that %s shows the machine is of %q, and the cluster's CA has not signed it",
			s.q.APIServer, shown.Issuer.String())
	}
	return found("renew the API server's certificate (kubeadm certs renew apiserver)",
		"the certificate that %s shows the machine does not count: %v", s.q.APIServer, err)
}

// verifyServer tells why a server is not the one of a name that ca has signed. Without a
// certificate it is not known.
func verifyServer(answer host.APIAnswer, ca, name string) (shown *x509.Certificate, err error) {
	opts := x509.VerifyOptions{DNSName: name, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(),
		CurrentTime: answer.Date}
	if answer.Date.IsZero() {
		opts.CurrentTime = answer.Clock
	}
	if !opts.Roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("the cluster's CA has no certificate that can be read")
	}
	for _, der := range answer.Certificates {
		c, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the API server's certificate cannot be read: %w", err)
		case shown == nil:
			shown = c
		default:
			opts.Intermediates.AddCert(c)
		}
	}
	_, err = shown.Verify(opts)
	return shown, err
}

// certNames are the names and addresses that a certificate is for.
func certNames(c *x509.Certificate) string {
	var out []string
	for _, n := range c.DNSNames {
		out = append(out, fmt.Sprintf("%q", n))
	}
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	if out == nil {
		return "no name"
	}
	return strings.Join(out, ", ")
}

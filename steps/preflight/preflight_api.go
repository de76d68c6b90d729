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

// apiCertificate verifies the API server as the node's programs will: by the name in api_server and the
// cluster's CA. The certificate's times are checked against the server's clock, as clock-skew reports a
// wrong clock of the machine.
func apiCertificate(ctx context.Context, s *pass) ([]observed, error) {
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
		return found("use a name or address in api_server that the certificate has, or add this one to the API "+
			"server's certificate (kubeadm: certSANs)",
			"the certificate of %s is for %s, not for %s", s.q.APIServer, certNames(shown), u.Hostname())
	case errors.As(err, &authority):
		return found("correct api_server, or what is between the machine and it (a load balancer of another "+
			"cluster, a proxy that opens TLS); the CA is that of the plan's kubeconfig",
			"the certificate of %s was issued by %q, not by the cluster's CA",
			s.q.APIServer, shown.Issuer.String())
	}
	return found("renew the API server's certificate (kubeadm certs renew apiserver)",
		"the certificate of %s is not valid: %v", s.q.APIServer, err)
}

// verifyServer returns why the server's certificate is not valid for name and ca. shown is nil if that is
// not known.
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

// api asks the API server once for all checks; without an api_server there is no answer and no error.
func (s *pass) api(ctx context.Context) (host.APIAnswer, error) {
	if s.q.APIServer == "" {
		return host.APIAnswer{}, nil
	}
	if !s.apiKnown {
		s.apiAnswer, s.apiErr = s.r.ProbeAPI(ctx, s.q.APIServer)
		s.apiKnown = true
	}
	return s.apiAnswer, s.apiErr
}

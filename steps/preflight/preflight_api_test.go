package preflight_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/stepstest"
)

// apiCert is a certificate of an API server, with the CA that signed it.
type apiCert struct {
	der []byte
	ca  string // PEM
}

// newAPICert makes a certificate for a name. The one for "old.example" expired an hour ago.
func newAPICert(t *testing.T, name string) apiCert {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	stepstest.Must(t, err)
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca of " + name},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	stepstest.Must(t, err)
	server := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if name == "old.example" {
		server.NotAfter = now.Add(-time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, server, ca, key.Public(), key)
	stepstest.Must(t, err)
	return apiCert{der: der, ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))}
}

// TestPreflightAPICertificate: preflight checks the API server's certificate as a kubelet does.
func TestPreflightAPICertificate(t *testing.T) {
	for _, c := range []struct {
		what, server, named, has string
		change                   func(s *stepstest.Survey)
		unasked                  bool
	}{
		{what: "right", server: "https://api.example:6443", named: "api.example"},
		{what: "another name", server: "https://api.example:6443", named: "other.example",
			has: `is for "other.example", not for api.example`},
		{what: "an address", server: "https://192.0.2.1:6443", named: "api.example",
			has: `is for "api.example", not for 192.0.2.1`},
		{what: "ended", server: "https://old.example:6443", named: "old.example",
			has: "is not valid: x509: certificate has expired"},
		{what: "not ended by the server's clock", server: "https://api.example:6443", named: "api.example",
			change: func(s *stepstest.Survey) { s.Quirks.ClockSkew = 3 * time.Hour }},
		{what: "no CA yet", server: "https://api.example:6443", named: "other.example",
			change: func(s *stepstest.Survey) { s.Args.CA = steps.Ref("cluster.ca") }},
		{what: "none shown", server: "https://api.example:6443", named: "other.example",
			change: func(s *stepstest.Survey) { s.Quirks.APICertificates = nil }},
		{what: "no CA in it", server: "https://api.example:6443", named: "api.example", change: func(s *stepstest.Survey) {
			s.Args.CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		}, has: "the cluster's CA has no certificate that can be read", unasked: true},
		{what: "no certificate", server: "https://api.example:6443", named: "api.example",
			change: func(s *stepstest.Survey) { s.Quirks.APICertificates[0] = []byte{1} }, has: "cannot be read",
			unasked: true},
		{what: "no answer", server: "https://api.example:6443", named: "other.example",
			change: func(s *stepstest.Survey) { s.Quirks.API = "refused" }},
	} {
		s := stepstest.NewSurvey(t)
		s.Args.APIServer = c.server
		cert := newAPICert(t, c.named)
		serves(s, cert, cert)
		if c.change != nil {
			c.change(s)
		}
		list, refused := s.Findings()
		at := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == "api-certificate" })
		if (at >= 0) != (c.has != "") || at >= 0 && (!strings.Contains(list[at].Observed, c.has) ||
			list[at].Unasked != c.unasked || refused == nil) {
			t.Errorf("%s: %+v, %v; want %q", c.what, list, refused, c.has)
		}
	}
}

// serves makes the API server show a certificate, in a cluster with the CA of another one.
func serves(s *stepstest.Survey, shown, cluster apiCert) {
	s.Quirks.APICertificates, s.Args.CA = [][]byte{shown.der}, cluster.ca
}

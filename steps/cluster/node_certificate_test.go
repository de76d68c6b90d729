package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps"
)

// signer is an API server with a controller that signs requests, each in its own way.
type signer struct {
	t       *testing.T
	refuses bool // to approve what Nodes request
	denies  bool
	sleeps  bool          // signs nothing
	races   bool          // has approved a request before others do
	extra   time.Duration // that a certificate lives longer than requested
	node    string        // that it signs for, whatever is requested; "" = what is requested

	request          certificatesv1.CertificateSigningRequest
	deleted, secrets int
}

func (s *signer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	read := func(v any) {
		if err := json.NewDecoder(r.Body).Decode(v); err != nil {
			s.t.Error(err)
		}
	}
	approved := certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/subjectaccessreviews"):
		answer(map[string]any{"status": map[string]any{"allowed": !s.refuses}})
	case strings.HasSuffix(path, "/secrets"):
		s.secrets++
		answer(corev1.Secret{})
	case r.Method == http.MethodPost:
		read(&s.request)
		s.request.Name = s.request.GenerateName + "x"
		answer(s.request)
	case r.Method == http.MethodDelete:
		s.deleted++
		answer(metav1.Status{Status: metav1.StatusSuccess})
	case r.Method == http.MethodPut && s.races:
		s.request.Status.Conditions = append(s.request.Status.Conditions, approved)
		s.sign()
		w.WriteHeader(http.StatusConflict)
		answer(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict,
			Code: http.StatusConflict})
	case r.Method == http.MethodPut:
		read(&s.request)
		switch {
		case s.denies:
			s.request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
				{Type: certificatesv1.CertificateDenied, Reason: "Policy", Message: "not today"}}
		case !s.sleeps:
			s.sign()
		}
		answer(s.request)
	default:
		answer(s.request)
	}
}

// sign issues the certificate of the request.
func (s *signer) sign() {
	b, _ := pem.Decode(s.request.Spec.Request)
	q, err := x509.ParseCertificateRequest(b.Bytes)
	if err != nil {
		s.t.Error(err)
		return
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Error(err)
		return
	}
	now := time.Now()
	life := time.Duration(*s.request.Spec.ExpirationSeconds) * time.Second
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: q.Subject, NotBefore: now.Add(-5 * time.Minute),
		NotAfter: now.Add(life + s.extra)}
	if s.node != "" {
		c.Subject = pkix.Name{CommonName: "system:node:" + s.node}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, q.PublicKey, key)
	if err != nil {
		s.t.Error(err)
	}
	s.request.Status.Certificate = certPEM(der)
}

// TestMintCertificate: a certificate is given out only if it is what was requested. Its request is deleted however
// that ends.
func TestMintCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		signer
		want string // in the error; "" = none
	}{
		"signed":                      {},
		"approved by another as well": {signer: signer{races: true}},
		"nobody would approve":        {signer{refuses: true}, "does not approve certificates that Nodes renew"},
		"denied":                      {signer{denies: true}, "nodejoin-x was denied or failed: Policy: not today"},
		"lives too long":              {signer{extra: 365 * 24 * time.Hour}, "its signer ignores expirationSeconds"},
		"another Node":                {signer{node: "win-2"}, "of system:node:win-2, not system:node:win-1"},
	} {
		c.t = t
		a, _ := serve(t, c.ServeHTTP)
		token, err := a.MintCertificate(t.Context(), testNode, 15*time.Minute)
		var se *steps.Error
		text := ""
		if errors.As(err, &se) {
			text = se.Summary + ": " + se.Detail
		} else if err != nil {
			text = err.Error()
		}
		secrets, requests := 0, 1
		if c.want == "" {
			secrets = 1
		}
		if c.refuses {
			requests = 0
		}
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) ||
			(token.Certificate != "") != (err == nil) || c.secrets != secrets || c.deleted != requests {
			t.Errorf("%s: %v; %d Secrets, %d requests deleted", name, text, c.secrets, c.deleted)
		}
		cert, key := token.Pair()
		if err == nil && (!strings.Contains(string(cert), "CERTIFICATE") ||
			!strings.Contains(string(key), "PRIVATE KEY")) {
			t.Errorf("%s: it has %d and %d bytes", name, len(cert), len(key))
		}
	}
	s := &signer{t: t, sleeps: true}
	a, _ := serve(t, s.ServeHTTP)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.(*client).signed(t.Context(), testNode, key, time.Hour, 100*time.Millisecond)
	var se *steps.Error
	if !errors.As(err, &se) || se.Code != steps.CodeTimeout || s.deleted != 1 || !strings.Contains(se.Detail,
		"the request nodejoin-x is approved, and has no certificate after 100ms") {
		t.Errorf("nobody signs: %v; %d requests deleted", err, s.deleted)
	}
}

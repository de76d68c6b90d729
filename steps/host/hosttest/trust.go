package hosttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"io/fs"
	"math/big"
	"testing"
	"time"
)

// Authority returns the certificate of a certificate authority whose key nobody has.
func Authority(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// trustedCAs: an authority is trusted from when it is added until it is removed, and other authorities are not
// affected.
func (s *suite) trustedCAs() {
	if !s.Trust {
		s.Skip("the machine's store is not to be tried")
	}
	one, two := Authority(s.T, "nodejoin test, one"), Authority(s.T, "nodejoin test, two")
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), limit)
		defer cancel()
		for _, ca := range [][]byte{one, two} {
			if err := s.Host.DistrustCA(ctx, ca); err != nil {
				s.Error(err)
			}
		}
	})
	want := func(step string, wantOne, wantTwo bool) {
		s.Helper()
		haveOne, err := s.Host.TrustedCA(s.ctx, one)
		s.must(err)
		haveTwo, err := s.Host.TrustedCA(s.ctx, two)
		s.must(err)
		if haveOne != wantOne || haveTwo != wantTwo {
			s.Errorf("%s: trusted %v and %v, want %v and %v", step, haveOne, haveTwo, wantOne, wantTwo)
		}
		addedOne, err := s.Host.AddedCA(s.ctx, one)
		s.must(err)
		addedTwo, err := s.Host.AddedCA(s.ctx, two)
		s.must(err)
		if addedOne != wantOne || addedTwo != wantTwo {
			s.Errorf("%s: added %v and %v, want %v and %v", step, addedOne, addedTwo, wantOne, wantTwo)
		}
	}
	want("at first", false, false)
	s.must(s.Host.DistrustCA(s.ctx, one)) // absent
	for range 2 {
		s.must(s.Host.TrustCA(s.ctx, one))
		want("one put in", true, false)
	}
	s.must(s.Host.TrustCA(s.ctx, two))
	want("both put in", true, true)
	s.must(s.Host.DistrustCA(s.ctx, one))
	want("one taken out", false, true)
	s.must(s.Host.DistrustCA(s.ctx, two))
	want("both taken out", false, false)
	for _, bad := range [][]byte{nil, []byte("no certificate")} {
		s.is("no certificate", s.Host.TrustCA(s.ctx, bad), fs.ErrInvalid)
	}
}

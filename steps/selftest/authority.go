package selftest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"time"

	"nodejoin/steps/host"
)

// authorities: one whose key nobody has, valid for minutes, is trusted for a moment.
func (t *test) authorities() {
	ca, err := authority()
	if err == nil {
		// So that the next test can remove it if this one is interrupted.
		err = t.host.WriteFile(t.ctx, t.authorityFile(), bytes.NewReader(ca), host.WriteOptions{})
	}
	before, unread := t.host.TrustedCA(t.ctx, ca)
	if err = errors.Join(err, unread); err == nil && before {
		err = errOther
	}
	if err == nil {
		err = t.host.TrustCA(t.ctx, ca)
	}
	if !t.see("an authority is added", 0, nil, err) {
		return
	}
	have, err := t.host.TrustedCA(t.ctx, ca)
	t.see("it is trusted", 0, have, errors.Join(err, is(have)))
	err = t.host.DistrustCA(t.ctx, ca)
	have, unread = t.host.TrustedCA(t.ctx, ca)
	t.see("it is removed", 0, have, errors.Join(err, unread, is(!have)))
}

func (t *test) authorityFile() string { return host.Join(t.facts.OS, t.dir, "authority.der") }

// forgetAuthority removes the authority of an interrupted test.
func (t *test) forgetAuthority(ctx context.Context) error {
	f, err := t.host.Open(ctx, t.authorityFile())
	if err != nil {
		return err
	}
	ca, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err = errors.Join(err, f.Close()); err != nil || len(ca) == 0 {
		return err
	}
	return t.host.DistrustCA(ctx, ca)
}

// authority makes the certificate of an authority.
func authority() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: ownName},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(10 * time.Minute), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	return x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
}

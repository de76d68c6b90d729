package cluster

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// authority is the CA that must have signed the API server's certificate.
type authority struct {
	pem  string
	hash string // of the first certificate, "sha256:<hex>"
}

// spkiHash is the pin of a CA as kubeadm defines it: over the SubjectPublicKeyInfo
// (RFC 7469; kubeadm's --discovery-token-ca-cert-hash).
func spkiHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// parseAuthority parses a bundle of certificates. With a pin it keeps only those that match, so that nothing
// else of the bundle is trusted.
func parseAuthority(bundle []byte, pin string) (authority, error) {
	if len(bundle) == 0 {
		return authority{}, errors.New(
			"it names no CA (certificate-authority), which the node needs to verify the API server")
	}
	pin = strings.ToLower(strings.TrimSpace(pin))
	if pin != "" {
		digits, ok := strings.CutPrefix(pin, "sha256:")
		if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != sha256.Size {
			return authority{}, fmt.Errorf("the CA pin %q is not sha256: and 64 hex digits", pin)
		}
	}
	var a authority
	var seen []string
	for rest := bundle; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return authority{}, fmt.Errorf("its CA is not a certificate: %w", err)
		}
		h := spkiHash(c)
		seen = append(seen, h)
		if pin != "" && h != pin {
			continue
		}
		if a.hash == "" {
			a.hash = h
		}
		a.pem += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Bytes}))
	}
	switch {
	case len(seen) == 0:
		return authority{}, errors.New("its CA holds no certificate in PEM form")
	case a.hash == "":
		return authority{}, fmt.Errorf("its CA is not the pinned one: expected %s, found %s", pin, strings.Join(seen, ", "))
	}
	return a, nil
}

package kube

import (
	"cmp"
	"encoding/pem"
	"strings"
	"time"
)

// BootstrapToken is what a kubelet requests its certificate with: a bootstrap token, which is good for any Node, or a
// client certificate of one Node. Secret and Certificate are known only if it was just minted.
type BootstrapToken struct {
	ID          string // of the Secret bootstrap-token-ID
	Secret      string
	Certificate string // in PEM, with its private key; "" = it is a token
	Expires     time.Time
}

// Text is what a step gives out as its token. It is secret.
func (t BootstrapToken) Text() string { return t.ID + "." + cmp.Or(t.Certificate, t.Secret) }

// ParseBootstrapToken reads what Text writes.
func ParseBootstrapToken(s string) (t BootstrapToken) {
	var rest string
	if t.ID, rest, _ = strings.Cut(s, "."); strings.HasPrefix(rest, "-----BEGIN ") {
		t.Certificate = rest
	} else {
		t.Secret = rest
	}
	return t
}

// Pair is the certificate and the private key, each in PEM; both are nil for a token.
func (t BootstrapToken) Pair() (cert, key []byte) {
	for b, rest := pem.Decode([]byte(t.Certificate)); b != nil; b, rest = pem.Decode(rest) {
		if b.Type == "CERTIFICATE" {
			cert = append(cert, pem.EncodeToMemory(b)...)
		} else {
			key = append(key, pem.EncodeToMemory(b)...)
		}
	}
	return cert, key
}

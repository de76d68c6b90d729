package kube

import (
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

// pemBegin begins a block of PEM.
const pemBegin = "-----BEGIN "

// Text is what a step gives out as its token. It is secret.
func (t BootstrapToken) Text() string {
	if t.Certificate != "" {
		return t.ID + "." + t.Certificate
	}
	return t.ID + "." + t.Secret
}

// ParseBootstrapToken reads what Text writes.
func ParseBootstrapToken(s string) (t BootstrapToken) {
	var rest string
	if t.ID, rest, _ = strings.Cut(s, "."); strings.HasPrefix(rest, pemBegin) {
		t.Certificate = rest
	} else {
		t.Secret = rest
	}
	return t
}

// Pair is the certificate and the private key, each in PEM; both are nil for a token. The key comes last.
func (t BootstrapToken) Pair() (cert, key []byte) {
	i := strings.LastIndex(t.Certificate, pemBegin)
	if i < 0 {
		return nil, nil
	}
	return []byte(t.Certificate[:i]), []byte(t.Certificate[i:])
}

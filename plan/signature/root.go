// Package signature verifies signatures of Sigstore without a network: bytes in, a verdict out.
//
// It takes what a publisher signs with 'cosign sign-blob': a certificate of a short life that a certificate authority
// gave to an identity, a signature by the certificate's key, and the entry of a transparency log that says when.
// The forms: sigstore/protobuf-specs (sigstore_bundle.proto, sigstore_trustroot.proto), sigstore/fulcio
// docs/oid-info.md, sigstore/rekor openapi.yaml (LogEntry, hashedrekord 0.0.1) and RFC 6962.
package signature

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// publicGood is the trusted root of Sigstore's public instance (sigstore/root-signing, target trusted_root.json).
//
//go:embed public-good.json
var publicGood []byte

// Root is whom a plan trusts: certificate authorities and logs, each for a time.
type Root struct {
	authorities []authority
	logs        map[string]log // of signatures, by the id in base64
	certLogs    map[string]log // of certificates
	rekor       string         // address of the log of signatures
}

type authority struct {
	chain []*x509.Certificate // intermediates, then the root
	span
}

type log struct {
	key *ecdsa.PublicKey
	span
}

// span is when something is valid; a zero End is open.
type span struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

func (s span) has(t time.Time) bool {
	return !t.Before(s.Start) && (s.End.IsZero() || !t.After(s.End))
}

type rootFile struct {
	TLogs       []logFile `json:"tlogs"`
	CTLogs      []logFile `json:"ctlogs"`
	Authorities []struct {
		Chain struct {
			Certificates []rawBytes `json:"certificates"`
		} `json:"certChain"`
		ValidFor span `json:"validFor"`
	} `json:"certificateAuthorities"`
}

type logFile struct {
	BaseURL   string `json:"baseUrl"`
	PublicKey struct {
		rawBytes
		ValidFor span `json:"validFor"`
	} `json:"publicKey"`
}

type rawBytes struct {
	Raw []byte `json:"rawBytes"`
}

type keyID struct {
	ID []byte `json:"keyId"`
}

// Public is the root of Sigstore's public instance, as it was when this nodejoin was built.
func Public() *Root {
	r, err := ParseRoot(publicGood)
	if err != nil {
		panic(fmt.Sprintf("signature: %v", err)) // it is part of the program, and tested
	}
	return r
}

// ParseRoot reads a trusted_root.json.
func ParseRoot(text []byte) (*Root, error) {
	var f rootFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("it is not a trusted_root.json: %w", err)
	}
	r := &Root{logs: map[string]log{}, certLogs: map[string]log{}}
	for _, a := range f.Authorities {
		one := authority{span: a.ValidFor}
		for _, c := range a.Chain.Certificates {
			cert, err := x509.ParseCertificate(c.Raw)
			if err != nil {
				return nil, fmt.Errorf("a certificate authority of it cannot be read: %w", err)
			}
			one.chain = append(one.chain, cert)
		}
		if len(one.chain) > 0 {
			r.authorities = append(r.authorities, one)
		}
	}
	for _, l := range f.TLogs {
		if add(r.logs, l) { // the newest one last
			r.rekor = l.BaseURL
		}
	}
	for _, l := range f.CTLogs {
		add(r.certLogs, l)
	}
	if len(r.authorities) == 0 || len(r.logs) == 0 {
		return nil, errors.New("it has no certificate authority, or no transparency log with a key that is supported " +
			"(ECDSA)")
	}
	return r, nil
}

// add adds a log, if its key is one that this package verifies with.
func add(to map[string]log, l logFile) bool {
	key, err := x509.ParsePKIXPublicKey(l.PublicKey.Raw)
	if err != nil {
		return false
	}
	k, ok := key.(*ecdsa.PublicKey)
	if ok {
		id := sha256.Sum256(l.PublicKey.Raw) // what the id of a log is
		to[base64.StdEncoding.EncodeToString(id[:])] = log{k, l.PublicKey.ValidFor}
	}
	return ok
}

// Log is the address of the transparency log of signatures.
func (r *Root) Log() string { return r.rekor }

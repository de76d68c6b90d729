// Package signature verifies signatures of Sigstore without a network: bytes in, a verdict out.
//
// It takes what a publisher signs with 'cosign sign-blob': a certificate of a short life that a certificate authority
// gave to an identity, a signature by the certificate's key, and the entry of a transparency log that says when.
// Or an attestation in its place: a signed statement of in-toto about who built files, as GitHub's workflows make it.
// The forms: sigstore/protobuf-specs (sigstore_bundle.proto, sigstore_trustroot.proto), sigstore/fulcio
// docs/oid-info.md, sigstore/rekor openapi.yaml (LogEntry; hashedrekord 0.0.1, dsse 0.0.1, intoto 0.0.2), RFC 6962,
// secure-systems-lab/dsse and in-toto/attestation.
//
// Sigstore's own library does not verify here: sigstore-go 1.3.0 adds 9.6 MB to nodejoin (linux/amd64, stripped:
// 42.4 MB become 52.1 MB), and a release, which has the agents besides, has 59.2 of the 60 MB that it may have. It
// makes the signatures of the tests, and its verdicts are compared with those of this package (testdata/make).
//
// # What a lock keeps
//
// A bundle is written once, by its publisher, so it is the same for everybody. For a signature in two files (.sig and
// .cert) the log is asked for its entry. It signs the entry at each request, with a random number (ECDSA), so two
// machines that lock such an artifact for the first time get the same entry with two different signatures, both good.
// That signature cannot be left out: nothing else proves when the entry was made, and the certificate is valid for
// ten minutes only. A proof of inclusion would differ, too: it is about the tree at the time of the request, which
// grows, and its checkpoint is signed in the same way. An existing lock is therefore kept, byte for byte.
//
// # Whom to trust
//
// The root is pinned: that of this nodejoin, or the file of the plan's verify block. It is not fetched by TUF when a
// plan is locked, because then what a lock means would depend on the day and the machine. For a newer root,
// take a newer nodejoin, or let Sigstore's own client update it and write the file (cosign trusted-root create), and
// review that.
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

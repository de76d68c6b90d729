package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// maxBundle bounds a bundle, in bytes. One of a blob has some 6 kB.
const maxBundle = 1 << 18

// bundleFile is a bundle in JSON. Of the fields, those that count here.
type bundleFile struct {
	MediaType string    `json:"mediaType"`
	Material  material  `json:"verificationMaterial"`
	Message   *message  `json:"messageSignature,omitempty"`
	Envelope  *envelope `json:"dsseEnvelope,omitempty"`
}

type material struct {
	Certificate *rawBytes  `json:"certificate,omitempty"` // from 0.3 on
	Chain       *chain     `json:"x509CertificateChain,omitempty"`
	PublicKey   *publicKey `json:"publicKey,omitempty"` // instead of a certificate
	Entries     []entry    `json:"tlogEntries"`
}

// publicKey names the key of a signature, which is not in the bundle.
type publicKey struct {
	Hint string `json:"hint"`
}

type chain struct {
	Certificates []rawBytes `json:"certificates"`
}

type entry struct {
	Index   int64   `json:"logIndex,string"`
	LogID   keyID   `json:"logId"`
	Kind    kind    `json:"kindVersion"`
	Time    int64   `json:"integratedTime,string"`
	Promise promise `json:"inclusionPromise"`
	Body    []byte  `json:"canonicalizedBody"`
}

type kind struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

type promise struct {
	Timestamp []byte `json:"signedEntryTimestamp"`
}

type message struct {
	Digest    digest `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

type digest struct {
	Algorithm string `json:"algorithm"`
	Digest    []byte `json:"digest"`
}

// envelope is a signed text (secure-systems-lab/dsse, envelope.md).
type envelope struct {
	Payload    []byte              `json:"payload"`
	Type       string              `json:"payloadType"`
	Signatures []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Signature []byte `json:"sig"`
}

func parse(text []byte) (*bundleFile, error) {
	if len(text) > maxBundle {
		return nil, fmt.Errorf("the bundle has %d bytes, more than a signature needs", len(text))
	}
	var b bundleFile
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("it is not a Sigstore bundle: %w", err)
	}
	switch {
	case !strings.HasPrefix(b.MediaType, "application/vnd.dev.sigstore.bundle"):
		return nil, fmt.Errorf("it is not a Sigstore bundle, but %q", b.MediaType)
	case (b.Message == nil || b.Message.Signature == nil) == (b.Envelope == nil):
		return nil, errors.New("the bundle has no signature of a file, or more than one")
	case b.Envelope != nil && len(b.Envelope.Signatures) != 1:
		return nil, fmt.Errorf("the attestation has %d signatures, and not one", len(b.Envelope.Signatures))
	case b.Envelope == nil && b.Message.Digest.Algorithm != "SHA2_256":
		return nil, fmt.Errorf("the signature is over a digest of the form %q, and not SHA2_256",
			b.Message.Digest.Algorithm)
	case b.Material.PublicKey != nil && (b.Material.Certificate != nil || b.Material.Chain != nil):
		return nil, errors.New("the bundle names a key and a certificate; one of them signed")
	case b.Material.PublicKey == nil && len(b.Material.Entries) != 1:
		return nil, fmt.Errorf("the bundle has %d entries of a log, and not one", len(b.Material.Entries))
	}
	return &b, nil
}

// Compact is a bundle without what verifying does not need, in one form.
func Compact(bundle []byte) ([]byte, error) {
	b, err := parse(bundle)
	if err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

func (b *bundleFile) certificate() (*x509.Certificate, error) {
	var raw []byte
	switch m := b.Material; {
	case m.Certificate != nil:
		raw = m.Certificate.Raw
	case m.Chain != nil && len(m.Chain.Certificates) > 0:
		raw = m.Chain.Certificates[0].Raw
	default:
		return nil, errors.New("the bundle has no certificate, so nobody is named as its signer")
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("its certificate cannot be read: %w", err)
	}
	return cert, nil
}

// Parts are a signature in files of their own, as 'cosign sign-blob' wrote them before it had bundles.
type Parts struct {
	SHA256    string // of the bytes, in hex
	signature []byte
	cert      []byte // PEM
}

// ReadParts reads the files of a signature (.sig) and a certificate (.cert), in PEM or in base64 of that.
func ReadParts(sha256, sig, cert string) (*Parts, error) {
	p := &Parts{SHA256: sha256, cert: []byte(cert)}
	var err error
	if p.signature, err = base64.StdEncoding.DecodeString(strings.TrimSpace(sig)); err != nil || len(p.signature) == 0 {
		return nil, errors.New("the signature is not in base64")
	}
	if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(cert)); err == nil {
		p.cert = b
	}
	if block, _ := pem.Decode(p.cert); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the certificate is not in PEM")
	}
	return p, nil
}

// Query is what to ask the log for the entry of the signature (POST, api/v1/log/entries/retrieve).
func (p *Parts) Query() []byte {
	type object map[string]any
	text, err := json.Marshal(object{"entries": []object{{"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": object{
		"data":      object{"hash": object{"algorithm": "sha256", "value": p.SHA256}},
		"signature": object{"content": p.signature, "publicKey": object{"content": p.cert}},
	}}}})
	if err != nil {
		panic(fmt.Sprintf("signature: %v", err)) // texts are never refused
	}
	return text
}

// Bundle makes a bundle of the parts and the answer of the log to the query.
func (p *Parts) Bundle(answer []byte) ([]byte, error) {
	var found []map[string]struct {
		Body         []byte `json:"body"`
		Time         int64  `json:"integratedTime"`
		Index        int64  `json:"logIndex"`
		LogID        string `json:"logID"`
		Verification struct {
			Timestamp []byte `json:"signedEntryTimestamp"`
		} `json:"verification"`
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		return nil, fmt.Errorf("the answer of the log cannot be read: %w", err)
	}
	want, err := hexBytes(p.SHA256, sha256.Size)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(p.cert)
	b := bundleFile{MediaType: "application/vnd.dev.sigstore.bundle+json;version=0.1",
		Material: material{Chain: &chain{[]rawBytes{{block.Bytes}}}},
		Message:  &message{digest{"SHA2_256", want}, p.signature}}
	var first *entry
	for _, set := range found {
		for _, f := range set {
			id, err := hexBytes(f.LogID, sha256.Size)
			if err != nil {
				return nil, fmt.Errorf("the answer of the log cannot be read: %w", err)
			}
			if first == nil || f.Index < first.Index { // the first counts: the certificate was valid then
				first = &entry{f.Index, keyID{id}, kind{"hashedrekord", "0.0.1"}, f.Time,
					promise{f.Verification.Timestamp}, f.Body}
			}
		}
	}
	if first == nil {
		return nil, errors.New("the log has no entry of this signature")
	}
	b.Material.Entries = []entry{*first}
	return json.Marshal(&b)
}

// pemIs reports whether a text in PEM is a certificate.
func pemIs(text, cert []byte) bool {
	block, _ := pem.Decode(text)
	return block != nil && bytes.Equal(block.Bytes, cert)
}

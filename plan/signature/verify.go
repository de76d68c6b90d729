package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Identity is who signs: the subject of the certificate, an email address or a URI, and who vouched for it.
type Identity struct{ Subject, Issuer string }

// Verify checks that a bundle is the signature of an identity over the bytes with a sha256, in hex: the certificate
// is of an authority of the root, in a log of it where the root has such logs, and was valid when the log of
// signatures took the signature in.
func (r *Root) Verify(bundle []byte, digest string, who Identity) error {
	want, err := wanted(digest)
	if err != nil {
		return err
	}
	b, err := parse(bundle)
	if err != nil {
		return err
	}
	cert, err := r.signer(b, want)
	if err != nil {
		return err
	}
	return who.is(cert)
}

// wanted reads the sha256 of what must be signed, in hex.
func wanted(digest string) ([]byte, error) {
	want, err := hex.DecodeString(digest)
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("%q is not a sha256", digest)
	}
	return want, nil
}

// signer verifies all of a bundle but who signed it, and returns the certificate, which says that.
func (r *Root) signer(b *bundleFile, want []byte) (*x509.Certificate, error) {
	sum, sig, err := b.over(want)
	if err != nil {
		return nil, err
	}
	cert, err := b.certificate()
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(key, sum, sig) {
		return nil, errors.New("the signature is not one over these bytes by the key of its certificate")
	}
	logged := b.Material.Entries[0]
	at, err := r.logged(logged)
	if err != nil {
		return nil, err
	}
	if b.Envelope != nil {
		err = logged.aboutEnvelope(b.Envelope, cert.Raw)
	} else {
		err = logged.about(want, sig, cert)
	}
	if err != nil {
		return nil, err
	}
	issuer, err := r.issuer(cert, at)
	if err != nil {
		return nil, err
	}
	return cert, r.certLogged(cert, issuer)
}

// over returns the digest that is signed and its signature: of the bytes with a digest, or of an attestation that
// says who built them.
func (b *bundleFile) over(digest []byte) (sum, sig []byte, err error) {
	if b.Envelope == nil {
		if !bytes.Equal(b.Message.Digest.Digest, digest) {
			err = fmt.Errorf("the signature is over other bytes, with the sha256 %x", b.Message.Digest.Digest)
		}
		return digest, b.Message.Signature, err
	}
	signed := sha256.Sum256(b.Envelope.encoded())
	return signed[:], b.Envelope.Signatures[0].Signature, b.Envelope.built(digest)
}

// is reports whether a certificate is for the identity.
func (who Identity) is(cert *x509.Certificate) error {
	subjects := subjectsOf(cert)
	if !slices.Contains(subjects, who.Subject) || who.Subject == "" {
		return fmt.Errorf("it was signed by %q, and its publisher is %q", strings.Join(subjects, ", "), who.Subject)
	}
	if have := issuerOf(cert); have != who.Issuer || who.Issuer == "" {
		return fmt.Errorf("%q vouched for the signer, and its publisher is known to %q", have, who.Issuer)
	}
	return nil
}

// subjectsOf are those whom a certificate is for.
func subjectsOf(cert *x509.Certificate) []string {
	out := slices.Clone(cert.EmailAddresses)
	for _, u := range cert.URIs {
		out = append(out, u.String())
	}
	return out
}

// issuerOf is who vouched for the subject of a certificate: 57264.1.8 is a UTF8String, 57264.1.1 the bare text.
func issuerOf(cert *x509.Certificate) string {
	old := ""
	for _, e := range cert.Extensions {
		switch {
		case e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}):
			var text string
			if rest, err := asn1.UnmarshalWithParams(e.Value, &text, "utf8"); err == nil && len(rest) == 0 {
				return text
			}
			return ""
		case e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}):
			old = string(e.Value)
		}
	}
	return old
}

// issuer verifies a certificate at a time, and returns the one that issued it.
func (r *Root) issuer(cert *x509.Certificate, at time.Time) (*x509.Certificate, error) {
	if at.Before(cert.NotBefore) || at.After(cert.NotAfter) {
		return nil, fmt.Errorf("it was signed at %s, and its certificate was valid from %s to %s",
			at.UTC().Format(time.RFC3339), cert.NotBefore.UTC().Format(time.RFC3339),
			cert.NotAfter.UTC().Format(time.RFC3339))
	}
	var last error
	for _, a := range r.authorities {
		if !a.has(at) {
			continue
		}
		opt := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}
		opt.Roots.AddCert(a.chain[len(a.chain)-1])
		for _, c := range a.chain[:len(a.chain)-1] {
			opt.Intermediates.AddCert(c)
		}
		chains, err := cert.Verify(opt)
		if err == nil {
			return chains[0][1], nil
		}
		last = err
	}
	if last == nil {
		last = errors.New("none of the root's was valid then")
	}
	return nil, fmt.Errorf("its certificate is of no trusted authority: %w", last)
}

// logged verifies that a log of signatures took an entry in, and returns when.
func (r *Root) logged(e entry) (time.Time, error) {
	at := time.Unix(e.Time, 0)
	l, ok := r.logs[base64.StdEncoding.EncodeToString(e.LogID.ID)]
	switch {
	case !ok:
		return at, errors.New("its entry is of a log that is not trusted")
	case !l.has(at):
		return at, errors.New("its entry is of a time at which the key of the log was not valid")
	case len(e.Promise.Timestamp) == 0:
		return at, errors.New("its entry has no signed timestamp of the log")
	}
	// The fields in the order of their names, as RFC 8785 has it.
	text, err := json.Marshal(struct {
		Body  []byte `json:"body"`
		Time  int64  `json:"integratedTime"`
		LogID string `json:"logID"`
		Index int64  `json:"logIndex"`
	}{e.Body, e.Time, hex.EncodeToString(e.LogID.ID), e.Index})
	if err != nil {
		return at, err
	}
	sum := sha256.Sum256(text)
	if !ecdsa.VerifyASN1(l.key, sum[:], e.Promise.Timestamp) {
		return at, errors.New("the log's signature of its entry is wrong")
	}
	return at, nil
}

// about checks that an entry is of a signature by a certificate over a digest.
func (e entry) about(digest, sig []byte, cert *x509.Certificate) error {
	var body struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
		Spec    struct {
			Data struct {
				Hash struct{ Algorithm, Value string } `json:"hash"`
			} `json:"data"`
			Signature struct {
				Content   []byte `json:"content"`
				PublicKey struct {
					Content []byte `json:"content"`
				} `json:"publicKey"`
			} `json:"signature"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return fmt.Errorf("its entry in the log cannot be read: %w", err)
	}
	switch hash := body.Spec.Data.Hash; {
	case body.Kind != "hashedrekord" || body.Version != "0.0.1":
		return fmt.Errorf("its entry in the log is a %s %s, and not a hashedrekord 0.0.1", body.Kind, body.Version)
	case hash.Algorithm != "sha256" || hash.Value != hex.EncodeToString(digest):
		return errors.New("its entry in the log is about other bytes")
	case !bytes.Equal(body.Spec.Signature.Content, sig):
		return errors.New("its entry in the log is about another signature")
	case !pemIs(body.Spec.Signature.PublicKey.Content, cert.Raw):
		return errors.New("its entry in the log is about another certificate")
	}
	return nil
}

package signature

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Trust is the file of a machine that says whose signatures of a file count.
type Trust struct {
	Version    int      `json:"version"` // of this form: 1
	Identities []Signer `json:"identities,omitempty"`
	// Keys are public keys in PEM, as 'cosign generate-key-pair' writes them: ECDSA, P-256.
	Keys []string `json:"keys,omitempty"`
	// TrustRoot is the path of a trusted_root.json, which vouches for identities; "" = the one of this nodejoin, of
	// Sigstore's public instance.
	TrustRoot string `json:"trust_root,omitempty"`
}

// Signer is an identity, or those that match a regular expression as a whole.
type Signer struct {
	Issuer   string `json:"issuer"`
	Identity string `json:"identity,omitempty"`
	Regexp   string `json:"identity_regexp,omitempty"`
}

// TrustVersion is that of a Trust.
const TrustVersion = 1

// ParseTrust reads a file of trust.
func ParseTrust(text []byte) (t Trust, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("it is not a file of Sigstore signers: %w", err)
	}
	if t.Version != TrustVersion {
		return t, fmt.Errorf("it has the version %d, and this nodejoin reads version %d", t.Version, TrustVersion)
	}
	return t, nil
}

// Signers are those whose signatures of a file count.
type Signers struct {
	root       *Root
	identities []pattern
	keys       []*ecdsa.PublicKey
}

// pattern is a Signer.
type pattern struct {
	issuer  string
	subject *regexp.Regexp // of the whole subject
}

// Signers reads the signers of a file. root is that of TrustRoot; nil = that of Sigstore's public instance.
func (t Trust) Signers(root *Root) (*Signers, error) {
	s := &Signers{root: root}
	if len(t.Identities)+len(t.Keys) == 0 {
		return nil, errors.New("it trusts nobody: give identities, or keys")
	}
	for i, one := range t.Identities {
		p, err := one.pattern()
		if err != nil {
			return nil, fmt.Errorf("identity %d: %w", i+1, err)
		}
		s.identities = append(s.identities, p)
	}
	for i, text := range t.Keys {
		key, err := readKey(text)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		s.keys = append(s.keys, key)
	}
	if s.root == nil && len(s.identities) > 0 {
		s.root = Public()
	}
	return s, nil
}

// Check reports what is wrong with an identity.
func (s Signer) Check() error {
	_, err := s.pattern()
	return err
}

// CheckKey reports what is wrong with a key of Trust.
func CheckKey(text string) error {
	_, err := readKey(text)
	return err
}

func (s Signer) pattern() (p pattern, err error) {
	text := regexp.QuoteMeta(s.Identity)
	switch {
	case s.Issuer == "":
		return p, errors.New("it needs an issuer: anyone can have an identity of another one")
	case (s.Identity == "") == (s.Regexp == ""):
		return p, errors.New("give identity or identity_regexp")
	case s.Regexp != "":
		text = s.Regexp
		if _, err := regexp.Compile(text); err != nil { // by itself: 'a)(b' is none
			return p, fmt.Errorf("%q is not a regular expression: %w", text, err)
		}
	}
	p = pattern{issuer: s.Issuer}
	p.subject, err = regexp.Compile(`\A(?:` + text + `)\z`)
	return p, err
}

// readKey reads a public key in PEM.
func readKey(text string) (*ecdsa.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("it is not one public key in PEM, as cosign generate-key-pair writes it (cosign.pub)")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	k, ok := key.(*ecdsa.PublicKey)
	if !ok || k.Curve != elliptic.P256() {
		return nil, errors.New("it is not a key of ECDSA with the curve P-256, as cosign generate-key-pair makes it")
	}
	return k, nil
}

// Verify names the one who has signed the bytes with a sha256, in hex, as 'cosign sign-blob' does. An attestation is
// not such a signature. A key signs without a time: entries of logs about its signatures do not count.
func (s *Signers) Verify(bundle []byte, digest string) (by string, err error) {
	want, err := wanted(digest)
	if err != nil {
		return "", err
	}
	b, err := parse(bundle)
	switch {
	case err != nil:
		return "", err
	case b.Envelope != nil:
		return "", errors.New("the bundle is an attestation, and not a signature of cosign sign-blob")
	case b.Material.PublicKey != nil:
		return s.byKey(b, want)
	case len(s.identities) == 0:
		return "", errors.New("the bundle is of an identity, and only keys are trusted here")
	}
	cert, err := s.root.signer(b, want)
	if err != nil {
		return "", err
	}
	return s.identity(cert)
}

// byKey verifies a bundle that a key has signed.
func (s *Signers) byKey(b *bundleFile, want []byte) (string, error) {
	sum, sig, err := b.over(want)
	if err != nil {
		return "", err
	}
	for _, k := range s.keys {
		if ecdsa.VerifyASN1(k, sum, sig) {
			return "the key " + fingerprint(k), nil
		}
	}
	return "", errors.New("the signature is of no key that is trusted here, or is over other bytes")
}

// fingerprint names a key, as the hint of cosign's bundles does: the sha256 of its text in DER, in base64.
func fingerprint(k *ecdsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		panic(fmt.Sprintf("signature: %v", err)) // it was read from such a text
	}
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// identity returns the trusted subject of a certificate.
func (s *Signers) identity(cert *x509.Certificate) (string, error) {
	subjects, issuer := subjectsOf(cert), issuerOf(cert)
	for _, subject := range subjects {
		if subject == "" || strings.ContainsFunc(subject, unicode.IsControl) {
			continue // no name of anybody
		}
		if slices.ContainsFunc(s.identities, func(p pattern) bool {
			return p.issuer == issuer && p.subject.MatchString(subject)
		}) {
			return subject, nil
		}
	}
	return "", fmt.Errorf("it was signed by %q, for whom %q vouched, and that is nobody who is trusted here",
		strings.Join(subjects, ", "), issuer)
}

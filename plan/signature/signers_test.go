package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// TestSigners: a bundle names the identity or the key that signed, if that is one of those that are trusted. The
// bundles are of Sigstore's own library: those of testdata/make, and keyed.json, in the form v0.3, of its sign.Bundle.
// cosign_v3.json is of cosign 3.1.3:
//
//	cosign generate-key-pair
//	cosign sign-blob --yes --key cosign.key --use-signing-config=false --tlog-upload=false --bundle FILE artifact
func TestSigners(t *testing.T) {
	sum := sha256.Sum256(file(t, "artifact"))
	digest := hex.EncodeToString(sum[:])
	good, keyed, key := file(t, "good.json"), file(t, "keyed.json"), string(file(t, "cosign.pub"))
	byCosign, cosignKey := file(t, "cosign_v3.json"), string(file(t, "cosign_v3.pub"))
	who := []Signer{{Issuer: publisher.Issuer, Identity: publisher.Subject}}
	for _, c := range []struct {
		name   string
		trust  Trust
		bundle []byte
		by     string
		fails  string
	}{
		{"identity", Trust{Identities: who}, good, publisher.Subject, ""},
		{"regular expression", Trust{Identities: []Signer{{Issuer: publisher.Issuer, Regexp: `.*@example\.com`}}}, good,
			publisher.Subject, ""},
		{"key", Trust{Keys: []string{key}}, keyed, "the key ", ""},
		{"key of cosign", Trust{Keys: []string{key, cosignKey}}, byCosign, "the key ", ""},
		{"another key than cosign's", Trust{Keys: []string{key}}, byCosign, "", "of no key that is trusted here"},
		{"signature of cosign, changed", Trust{Keys: []string{cosignKey}}, bytes.Replace(byCosign, []byte(`DJ3FJn`),
			[]byte(`DJ3FJo`), 1), "", "of no key that is trusted here"},
		{"part of an identity", Trust{Identities: []Signer{{Issuer: publisher.Issuer, Regexp: `publisher`}}}, good, "",
			"nobody who is trusted here"},
		{"no expression", Trust{Identities: []Signer{{Issuer: publisher.Issuer, Identity: `publisher@example.co.`}}},
			good, "", "nobody who is trusted here"},
		{"another identity", Trust{Identities: who}, file(t, "other_subject.json"), "", "nobody who is trusted here"},
		{"another issuer", Trust{Identities: who}, file(t, "other_issuer.json"), "", "nobody who is trusted here"},
		{"another authority", Trust{Identities: who}, file(t, "other_authority.json"), "", "log that is not trusted"},
		{"expired", Trust{Identities: who}, file(t, "expired.json"), "", "its certificate was valid from"},
		{"other bytes", Trust{Identities: who}, file(t, "other_bytes.json"), "", "over other bytes"},
		{"attestation", Trust{Identities: who}, file(t, "provenance.json"), "", "is an attestation"},
		{"key where identities are", Trust{Identities: who}, keyed, "", "of no key that is trusted here"},
		{"identity where keys are", Trust{Keys: []string{key}}, good, "", "only keys are trusted here"},
		{"signature of a key, changed", Trust{Keys: []string{key}}, bytes.Replace(keyed, []byte(`XqTRwAi`),
			[]byte(`XqTRwAj`), 1), "", "of no key that is trusted here"},
	} {
		c.trust.Version = TrustVersion
		s, err := c.trust.Signers(testRoot(t))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		by, err := s.Verify(c.bundle, digest)
		switch {
		case c.fails == "" && (err != nil || !strings.HasPrefix(by, c.by)):
			t.Errorf("%s: by %q, %v", c.name, by, err)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: by %q, %v, want %q", c.name, by, err, c.fails)
		}
	}
	err := testRoot(t).Verify(keyed, digest, publisher)
	if err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("a lock takes the signature of a key: %v", err)
	}
}

package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

// attested is the bundle of a file in testdata, changed by edit.
func attested(t *testing.T, name string, edit func(*bundleFile)) []byte {
	t.Helper()
	var b bundleFile
	if err := json.Unmarshal(file(t, name), &b); err != nil {
		t.Fatal(err)
	}
	edit(&b)
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestAttestation: of attestations only the provenance of the file passes, by its signer. testdata/make wrote them
// with Sigstore's own library and its test authority, and compared Sigstore's verdicts.
func TestAttestation(t *testing.T) {
	sum := sha256.Sum256(file(t, "artifact"))
	digest := hex.EncodeToString(sum[:])
	other := attested(t, "provenance_other.json", func(*bundleFile) {})
	var another bundleFile
	if err := json.Unmarshal(other, &another); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		from  string
		edit  func(*bundleFile)
		who   Identity
		fails string
	}{
		{"good", "provenance.json", func(*bundleFile) {}, publisher, ""},
		{"replayed: that of another artifact", "provenance_other.json", func(*bundleFile) {}, publisher, "over other bytes"},
		{"expired", "provenance_expired.json", func(*bundleFile) {}, publisher, "its certificate was valid from"},
		{"not about who built it", "vulnerabilities.json", func(*bundleFile) {}, publisher,
			`"https://in-toto.io/attestation/vulns/v0.1"`},
		{"wrong identity", "provenance.json", func(*bundleFile) {}, Identity{"mallory@example.com", publisher.Issuer},
			"signed by"},
		{"tampered statement", "provenance.json", func(b *bundleFile) {
			b.Envelope.Payload = append(b.Envelope.Payload, ' ')
		}, publisher, "not one over these bytes"},
		{"another type of text", "provenance.json", func(b *bundleFile) { b.Envelope.Type = "text/plain" }, publisher,
			"not a statement of in-toto"},
		{"the entry of another signature", "provenance.json", func(b *bundleFile) {
			b.Material.Entries = another.Material.Entries
		}, publisher, "about other bytes"},
		{"two signatures", "provenance.json", func(b *bundleFile) {
			b.Envelope.Signatures = append(b.Envelope.Signatures, b.Envelope.Signatures[0])
		}, publisher, "has 2 signatures"},
		{"a signature of a file, too", "provenance.json", func(b *bundleFile) {
			b.Message = &message{Signature: []byte("x")}
		}, publisher, "or more than one"},
		{"another certificate", "provenance.json", func(b *bundleFile) { b.Material.Chain = another.Material.Chain },
			publisher, "not one over these bytes"},
	} {
		err := testRoot(t).Verify(attested(t, c.from, c.edit), digest, c.who)
		switch {
		case c.fails == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v, want %q", c.name, err, c.fails)
		}
	}
	compact, err := Compact(file(t, "provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := testRoot(t).Verify(compact, digest, publisher); err != nil {
		t.Errorf("without what verifying does not need: %v", err)
	}
}

// TestPick: of a file of attestations the one about the artifact counts; what is not such a file stays as it is.
func TestPick(t *testing.T) {
	sum := sha256.Sum256(file(t, "artifact"))
	digest := hex.EncodeToString(sum[:])
	list := bytes.Join([][]byte{file(t, "provenance_other.json"), file(t, "vulnerabilities.json"),
		file(t, "provenance.json")}, []byte("\n"))
	if err := testRoot(t).Verify(Pick(list, digest), digest, publisher); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "<html>", `{"mediaType":"x"}`, string(file(t, "good.json")),
		string(file(t, "provenance_other.json"))} {
		if have := Pick([]byte(text), digest); string(have) != text {
			t.Errorf("%.20q becomes %.20q", text, have)
		}
	}
}

// TestOlderEntry: the entry of an attestation in the older form of the log is read: that of npm's sigstore 2.0.0.
func TestOlderEntry(t *testing.T) {
	var b bundleFile
	if err := json.Unmarshal(file(t, "public.json"), &b); err != nil {
		t.Fatal(err)
	}
	e := b.Material.Entries[0]
	l, err := e.envelope()
	if err != nil || len(l.signatures) != 1 || l.payload.Algorithm != "sha256" {
		t.Fatalf("%+v, %v", l, err)
	}
	cert, err := b.certificate()
	if err != nil || !pemIs(l.certs[0], cert.Raw) {
		t.Errorf("the certificate is another: %v", err)
	}
	if first := l.signatures[0][0]; first != 0x30 { // SEQUENCE, of an ECDSA signature (RFC 3279)
		t.Errorf("the signature begins with %#x", first)
	}
	env := &envelope{Signatures: []envelopeSignature{{Signature: l.signatures[0]}}}
	if err := e.aboutEnvelope(env, cert.Raw); err == nil || !strings.Contains(err.Error(), "about other bytes") {
		t.Error(err)
	}
	hashed := entry{Body: []byte(`{"kind":"hashedrekord","apiVersion":"0.0.1"}`)}
	if _, err := hashed.envelope(); err == nil {
		t.Error("the entry of a file's signature is taken for one of an attestation")
	}
	broken := entry{Body: []byte(`{"kind":"intoto","apiVersion":"0.0.2","spec":{"content":{"envelope":{"signatures":[{` +
		`"sig":"` + base64.StdEncoding.EncodeToString([]byte("!")) + `"}]}}}}`)}
	if _, err := broken.envelope(); err == nil {
		t.Error("a signature that is not in base64 is read")
	}
}

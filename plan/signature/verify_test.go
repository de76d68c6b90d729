package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var publisher = Identity{"publisher@example.com", "https://accounts.example.com"}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testRoot(t testing.TB) *Root {
	t.Helper()
	r, err := ParseRoot(file(t, "trusted_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVerify: only the good signature passes. testdata/make wrote the signatures with Sigstore's own library and its
// test authority, and compared Sigstore's verdicts.
func TestVerify(t *testing.T) {
	sum := sha256.Sum256(file(t, "artifact"))
	digest := hex.EncodeToString(sum[:])
	good := file(t, "good.json")
	edit := func(old, now string) []byte {
		out := bytes.Replace(good, []byte(old), []byte(now), 1)
		if bytes.Equal(out, good) {
			t.Fatalf("the bundle has no %s", old)
		}
		return out
	}
	field := func(name string) string { // "name":"value" as the bundle has it
		i := bytes.Index(good, []byte(`"`+name+`"`))
		if i < 0 {
			t.Fatalf("the bundle has no %s", name)
		}
		rest := good[i:]
		colon := bytes.IndexByte(rest, ':')
		quote := colon + 1 + bytes.IndexByte(rest[colon+1:], '"')
		return string(rest[:quote+2+bytes.IndexByte(rest[quote+1:], '"')])
	}
	took, err := strconv.ParseInt(strings.Split(field("integratedTime"), `"`)[3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, digest string
		bundle       []byte
		who          Identity
		fails        string
	}{
		{"good", digest, good, publisher, ""},
		{"tampered bytes", strings.Repeat("ab", 32), good, publisher, "over other bytes"},
		{"replayed: that of another artifact", digest, file(t, "other_bytes.json"), publisher, "over other bytes"},
		{"wrong identity", digest, file(t, "other_subject.json"), publisher, `signed by "mallory@example.com"`},
		{"wrong issuer", digest, file(t, "other_issuer.json"), publisher, "https://accounts.example.org"},
		{"expired", digest, file(t, "expired.json"), publisher, "its certificate was valid from"},
		{"another authority", digest, file(t, "other_authority.json"), publisher, "log that is not trusted"},
		{"no identity wanted", digest, good, Identity{}, "signed by"},
		{"unsigned", digest, []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle+json;version=0.1"}`), publisher,
			"no signature"},
		{"not a bundle", digest, []byte("<html>"), publisher, "not a Sigstore bundle"},
		{"truncated", digest, good[:len(good)/2], publisher, "not a Sigstore bundle"},
		{"too long", digest, bytes.Repeat([]byte(" "), maxBundle+1), publisher, "more than a signature needs"},
		{"another signature", digest, edit(field("signature"), `"signature":"MEUCIQ=="`), publisher,
			"not one over these"},
		{"another time", digest, edit(field("integratedTime"), fmt.Sprintf(`"integratedTime":"%d"`, took+1)), publisher,
			"signature of its entry is wrong"},
		{"no timestamp of the log", digest, edit(field("signedEntryTimestamp"), `"signedEntryTimestamp":""`), publisher,
			"no signed timestamp"},
		{"another entry", digest, edit(field("canonicalizedBody"), `"canonicalizedBody":"e30="`), publisher,
			"signature of its entry is wrong"},
	} {
		err := testRoot(t).Verify(c.bundle, c.digest, c.who)
		switch {
		case c.fails == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v, want %q", c.name, err, c.fails)
		}
	}
	if err := Public().Verify(good, digest, publisher); err == nil {
		t.Error("the public instance accepts the signature of the test authority")
	}
}

// TestEntryIsOfTheSignature: a good log entry does not vouch for another signature.
func TestEntryIsOfTheSignature(t *testing.T) {
	sum := sha256.Sum256(file(t, "artifact"))
	var good, other bundleFile
	for name, b := range map[string]*bundleFile{"good.json": &good, "other_subject.json": &other} {
		if err := json.Unmarshal(file(t, name), b); err != nil {
			t.Fatal(err)
		}
	}
	// The signature and certificate of somebody else, with the entry of the publisher.
	other.Material.Entries = good.Material.Entries
	text, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	who := Identity{"mallory@example.com", publisher.Issuer}
	if err := testRoot(t).Verify(text, hex.EncodeToString(sum[:]), who); err == nil ||
		!strings.Contains(err.Error(), "about another signature") {
		t.Error(err)
	}
}

// TestParts: a signature and a certificate in separate files become a bundle with the log's answer.
func TestParts(t *testing.T) {
	sum := sha256.Sum256(file(t, "artifact"))
	digest := hex.EncodeToString(sum[:])
	var b bundleFile
	if err := json.Unmarshal(file(t, "good.json"), &b); err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Material.Chain.Certificates[0].Raw})
	sig := base64.StdEncoding.EncodeToString(b.Message.Signature)
	e := b.Material.Entries[0]
	answer := fmt.Sprintf(`[{"24296fb2": {"body": %q, "integratedTime": %d, "logIndex": %d, "logID": %q, `+
		`"verification": {"signedEntryTimestamp": %q}}}]`, base64.StdEncoding.EncodeToString(e.Body), e.Time, e.Index,
		hex.EncodeToString(e.LogID.ID), base64.StdEncoding.EncodeToString(e.Promise.Timestamp))
	for name, text := range map[string]string{"PEM": string(cert), "base64": base64.StdEncoding.EncodeToString(cert)} {
		p, err := ReadParts(digest, sig+"\n", text)
		if err != nil {
			t.Fatal(name, err)
		}
		if q := p.Query(); !bytes.Contains(q, []byte(digest)) || !bytes.Contains(q, []byte(sig)) {
			t.Errorf("%s: %s", name, q)
		}
		made, err := p.Bundle([]byte(answer))
		if err != nil {
			t.Fatal(name, err)
		}
		if err := testRoot(t).Verify(made, digest, publisher); err != nil {
			t.Error(name, err)
		}
		for bad, want := range map[string]string{"[]": "no entry", "<html>": "cannot be read",
			`[{"a":{"logID":"zz"}}]`: "cannot be read"} {
			if _, err := p.Bundle([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	}
	for _, c := range [][2]string{{"", string(cert)}, {"!", string(cert)}, {sig, ""}, {sig, "x"}} {
		if _, err := ReadParts(digest, c[0], c[1]); err == nil {
			t.Errorf("%q is accepted", c)
		}
	}
}

// TestPublicInstance: a bundle of Sigstore's public instance is from its authority and in its logs.
// testdata/public.json is from the provenance of npm's sigstore 2.0.0, which GitHub Actions signed.
func TestPublicInstance(t *testing.T) {
	var b bundleFile
	if err := json.Unmarshal(file(t, "public.json"), &b); err != nil {
		t.Fatal(err)
	}
	r := Public()
	cert, err := b.certificate()
	if err != nil {
		t.Fatal(err)
	}
	e := b.Material.Entries[0]
	at, err := r.logged(e)
	if err != nil || at.UTC().Format(time.DateOnly) != "2023-08-18" {
		t.Fatal(at, err)
	}
	issuer, err := r.issuer(cert, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.certLogged(cert, issuer); err != nil {
		t.Error(err)
	}
	who := Identity{"https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main",
		"https://token.actions.githubusercontent.com"}
	if err := who.is(cert); err != nil {
		t.Error(err)
	}
	if r.Log() == "" {
		t.Error("the log has no address")
	}

	for id, l := range r.certLogs { // another log's key
		l.key = r.logs[base64.StdEncoding.EncodeToString(e.LogID.ID)].key
		r.certLogs[id] = l
	}
	if err := r.certLogged(cert, issuer); err == nil {
		t.Error("a timestamp of another key is accepted")
	}
	if _, err := r.issuer(cert, cert.NotAfter.Add(time.Second)); err == nil {
		t.Error("an expired certificate is accepted")
	}
	e.Index++
	if _, err := r.logged(e); err == nil {
		t.Error("a changed entry is accepted")
	}
}

func FuzzVerify(f *testing.F) {
	sum := sha256.Sum256(file(f, "artifact"))
	digest, r := hex.EncodeToString(sum[:]), testRoot(f)
	good := file(f, "good.json")
	f.Add(good)
	f.Add(file(f, "public.json"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := r.Verify(text, digest, publisher); err != nil {
			return
		}
		// A bundle that passes has the signature and the entry of the good bundle.
		var a, b bundleFile
		if err := errors.Join(json.Unmarshal(text, &a), json.Unmarshal(good, &b)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Message.Signature, b.Message.Signature) ||
			!bytes.Equal(a.Material.Entries[0].Body, b.Material.Entries[0].Body) {
			t.Errorf("another signature passes: %s", text)
		}
	})
}

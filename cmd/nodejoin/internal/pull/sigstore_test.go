package pull

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/plan/signature"
	"nodejoin/plan/signature/signaturetest"
)

const (
	signer = "release@example.com"
	issuer = "https://accounts.example.com"
)

var trustsSigner = []signature.Signer{{Issuer: issuer, Identity: signer}}

// trustFile writes a file of Sigstore signers, and a trust root beside it; nil = none.
func trustFile(t *testing.T, root []byte, identities []signature.Signer, keys ...*ecdsa.PrivateKey) string {
	t.Helper()
	dir := t.TempDir()
	trust := signature.Trust{Version: signature.TrustVersion, Identities: identities}
	for _, k := range keys {
		trust.Keys = append(trust.Keys, signaturetest.PublicKey(k))
	}
	if root != nil {
		trust.TrustRoot = filepath.Join(dir, "trusted_root.json")
		must(t, os.WriteFile(trust.TrustRoot, root, 0o600))
		closeFile(t, trust.TrustRoot)
	}
	b, err := json.Marshal(trust)
	must(t, err)
	file := filepath.Join(dir, "sigstore.json")
	must(t, os.WriteFile(file, b, 0o600))
	closeFile(t, file)
	return file
}

// toSign writes a bundle with the text of its release, and returns the file of the bundle and the text.
func toSign(t *testing.T, serial int64) (bundle string, text []byte) {
	t.Helper()
	bundle = bundleFile(t)
	_, _, err := signed(t, Signing{ToSign: true, Serial: serial}, bundle)
	must(t, err)
	text, err = os.ReadFile(bundle + ".release.json")
	must(t, err)
	if _, err := os.Stat(bundle + Suffix); !os.IsNotExist(err) {
		t.Errorf("a release that nobody signed is there: %v", err)
	}
	return bundle, text
}

// whole is the file of a release.
func whole(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestSigstore: a release that a trusted identity or key has signed with cosign is taken.
func TestSigstore(t *testing.T) {
	s, key := signaturetest.New(), signaturetest.Key()
	bundle, text := toSign(t, 7)
	by := s.Sign(text, signer, issuer, time.Now(), time.Minute)
	var pretty bytes.Buffer
	must(t, json.Indent(&pretty, by, "", "  "))
	regexp := []signature.Signer{{Issuer: "https://other.example", Identity: signer},
		{Issuer: issuer, Regexp: `[a-z]+@example\.com`}}
	_, ssh := keyFile(t)
	sshSignature, err := sign(ssh, text)
	must(t, err)
	for name, c := range map[string]struct {
		trust string
		file  []byte
		by    string
	}{
		"identity":           {trustFile(t, s.Root(), trustsSigner), whole(by, text), signer},
		"regular expression": {trustFile(t, s.Root(), regexp), whole(by, text), signer},
		"line break":         {trustFile(t, s.Root(), trustsSigner), whole(by, []byte("\r\n"), text), signer},
		"indented": {trustFile(t, s.Root(), trustsSigner), whole(pretty.Bytes(), []byte("\n"), text),
			signer},
		"key": {trustFile(t, nil, nil, signaturetest.Key(), key), whole(signaturetest.SignByKey(text, key), text),
			"the key "},
		"both, ssh behind": {trustFile(t, s.Root(), trustsSigner), whole(by, []byte("\n"), sshSignature, text),
			"ops and " + signer},
		"both, ssh first": {trustFile(t, s.Root(), trustsSigner), whole(sshSignature, by, []byte("\n"), text),
			"ops and " + signer},
		"both are trusted": {trustFile(t, s.Root(), trustsSigner), whole(sshSignature, text), "ops"},
	} {
		must(t, os.WriteFile(bundle+Suffix, c.file, 0o600))
		r, have, err := Checking{Signers: signersFile(t, line("ops", ssh)), Sigstore: c.trust}.verify(bundle)
		if err != nil || !strings.HasPrefix(have, c.by) || r.Serial != 7 {
			t.Errorf("%s: release %d by %q, %v", name, r.Serial, have, err)
		}
	}
}

// TestSigstoreRefused: nothing counts but a whole bundle for this very text, by somebody who is trusted, and in time.
// Of two signatures each has to be good and trusted.
func TestSigstoreRefused(t *testing.T) {
	s, other, key := signaturetest.New(), signaturetest.New(), signaturetest.Key()
	bundle, text := toSign(t, 7)
	_, older := toSign(t, 6)
	now := time.Now()
	by := s.Sign(text, signer, issuer, now, time.Minute)
	byKey := signaturetest.SignByKey(text, key)
	_, ssh := keyFile(t)
	_, stranger := keyFile(t)
	sshSignature, err := sign(ssh, text)
	must(t, err)
	strangers, err := sign(stranger, text)
	must(t, err)
	change := func(in []byte, change func(material, b map[string]any)) []byte {
		var b map[string]any
		must(t, json.Unmarshal(in, &b))
		change(b["verificationMaterial"].(map[string]any), b)
		out, err := json.Marshal(b)
		must(t, err)
		return out
	}
	trust := trustFile(t, s.Root(), trustsSigner, key)
	keysOnly, identitiesOnly := trustFile(t, nil, nil, key), trustFile(t, s.Root(), trustsSigner)
	sigstore, keys := Checking{Sigstore: trust}, Checking{Signers: signersFile(t, line("ops", ssh))}
	both := Checking{Signers: keys.Signers, Sigstore: trust}
	mallory := s.Sign(text, "mallory@example.com", issuer, now, 0)
	replayed := s.Sign(older, signer, issuer, now, 0)
	for name, c := range map[string]struct {
		check Checking
		file  []byte
		want  string
	}{
		"unsigned":     {sigstore, text, "it is not signed"},
		"empty":        {sigstore, nil, "it is not signed"},
		"bundle cut":   {sigstore, whole(by[:len(by)/2], text), "it is not signed"},
		"bundle alone": {sigstore, by, "over other bytes"},
		"older form": {sigstore, whole([]byte(`{"base64Signature":"MEYCIQC4419G","cert":"LS0t"}`), text),
			"of an older form of cosign"},
		"older form behind ssh": {both, whole(sshSignature, []byte(`{"base64Signature":"e30="}`), text),
			"of an older form of cosign"},
		"wrong identity": {sigstore, whole(mallory, text),
			`it was signed by "mallory@example.com", for whom "https://accounts.example.com" vouched`},
		"wrong issuer": {sigstore, whole(s.Sign(text, signer, "https://mallory.example", now, 0), text),
			`for whom "https://mallory.example" vouched`},
		"more behind the identity": {Checking{Sigstore: trustFile(t, s.Root(), []signature.Signer{{Issuer: issuer,
			Regexp: `release@example\.com|ops@example\.com`}})},
			whole(s.Sign(text, signer+".mallory.example", issuer, now, 0), text), "nobody who is trusted here"},
		"line break in the identity": {Checking{Sigstore: trustFile(t, s.Root(), []signature.Signer{{Issuer: issuer,
			Regexp: `[^y]+`}})}, whole(s.Sign(text, signer+"\nApplied", issuer, now, 0), text),
			"nobody who is trusted here"},
		"other trust root": {sigstore, whole(other.Sign(text, signer, issuer, now, 0), text),
			"a log that is not trusted"},
		"Sigstore's own root": {Checking{Sigstore: trustFile(t, nil, trustsSigner)}, whole(by, text),
			"a log that is not trusted"},
		"expired": {sigstore, whole(s.Sign(text, signer, issuer, now, 11*time.Minute), text),
			"and its certificate was valid from"},
		"logged before the certificate": {sigstore, whole(s.Sign(text, signer, issuer, now, -time.Minute),
			text), "and its certificate was valid from"},
		"expired, in no log": {sigstore, whole(change(by, func(m, _ map[string]any) {
			delete(m, "tlogEntries")
		}), text), "the bundle has 0 entries of a log"},
		"no time of the log": {sigstore, whole(change(by, func(m, _ map[string]any) {
			delete(m["tlogEntries"].([]any)[0].(map[string]any), "inclusionPromise")
		}), text), "no signed timestamp of the log"},
		"entry of another signature": {sigstore, whole(change(by, func(m, _ map[string]any) {
			var b map[string]any
			must(t, json.Unmarshal(s.Sign(text, signer, issuer, now, time.Minute), &b))
			m["tlogEntries"] = b["verificationMaterial"].(map[string]any)["tlogEntries"]
		}), text), "its entry in the log is about another signature"},
		"of an older release": {sigstore, whole(replayed, text), "over other bytes"},
		"changed": {sigstore, whole(by, bytes.Replace(text, []byte(`"prod"`), []byte(`"prox"`), 1)),
			"over other bytes"},
		"something behind it": {sigstore, whole(by, text, []byte(" ")), "over other bytes"},
		"digest of the changed": {sigstore, whole(change(replayed, func(_, b map[string]any) {
			var good map[string]any
			must(t, json.Unmarshal(by, &good))
			b["messageSignature"].(map[string]any)["messageDigest"] =
				good["messageSignature"].(map[string]any)["messageDigest"]
		}), text), "not one over these bytes"},
		"attestation": {sigstore, whole([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",`+
			`"verificationMaterial":{"tlogEntries":[{"logIndex":"1","integratedTime":"1"}]},`+
			`"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json",`+
			`"signatures":[{"sig":"e30="}]}}`), text), "is an attestation"},
		"two bundles": {sigstore, whole(by, byKey, text), "two signatures of the same form"},
		"two of ssh":  {keys, whole(sshSignature, sshSignature, text), "two signatures of the same form"},
		"key and identity": {sigstore, whole(change(byKey, func(m, _ map[string]any) {
			m["certificate"] = map[string]any{"rawBytes": "e30="}
		}), text), "names a key and a certificate"},
		"another key": {sigstore, whole(signaturetest.SignByKey(text, signaturetest.Key()), text),
			"of no key that is trusted here"},
		"key, older": {sigstore, whole(signaturetest.SignByKey(older, key), text), "over other bytes"},
		"keys only":  {Checking{Sigstore: keysOnly}, whole(by, text), "only keys are trusted here"},
		"identities only": {Checking{Sigstore: identitiesOnly}, whole(byKey, text),
			"of no key that is trusted here"},
		"ssh where there is none": {sigstore, whole(sshSignature, text), "of a key that is not trusted here"},
		"bundle where there is none": {keys, whole(by, text),
			"its Sigstore bundle: no signer of Sigstore is trusted here"},
		"both, Sigstore not trusted": {keys, whole(by, sshSignature, text),
			"no signer of Sigstore is trusted here"},
		"both, ssh not trusted": {sigstore, whole(by, sshSignature, text), "of a key that is not trusted here"},
		"both, ssh of another": {both, whole(by, strangers, text),
			"of a key that is not trusted here"},
		"both, wrong identity":      {both, whole(mallory, sshSignature, text), "nobody who is trusted here"},
		"both, bundle of an older":  {both, whole(replayed, sshSignature, text), "over other bytes"},
		"both, ssh of another text": {both, whole(replayed, sshSignature, older), "was changed after it was signed"},
	} {
		must(t, os.WriteFile(bundle+Suffix, c.file, 0o600))
		if _, by, err := c.check.verify(bundle); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: by %q, %v, want %q", name, by, err, c.want)
		}
	}
}

// TestSigstoreFile: a file of Sigstore signers that trusts nobody, or is not clear about whom, is refused.
func TestSigstoreFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root.json")
	must(t, os.WriteFile(root, []byte("{}"), 0o600))
	file := filepath.Join(t.TempDir(), "sigstore.json")
	identities := func(one string) string { return `{"version": 1, "identities": [{` + one + `}]}` }
	for text, want := range map[string]string{
		``:                                  "not a file of Sigstore signers",
		`{"version": 2}`:                    "it has the version 2",
		`{"version": 1}`:                    "it trusts nobody",
		`{"version": 1, "more": 1}`:         `unknown field "more"`,
		`{"version": 1, "keys": ["x"]}`:     "key 1: it is not one public key in PEM",
		identities(`"identity": "a@b"`):     "identity 1: it needs an issuer",
		identities(`"issuer": "https://a"`): "give identity or identity_regexp",
		identities(`"issuer": "i", "identity": "a", "identity_regexp": "a"`): "give identity or identity_regexp",
		identities(`"issuer": "https://a", "identity_regexp": "a)(b"`):       "is not a regular expression",
		`{"version": 1, "trust_root": "root.json"}`:                          "it must be an absolute path",
		`{"version": 1, "trust_root": "` + filepath.ToSlash(root) + `"}`:     "has no certificate authority",
		`{"version": 1, "trust_root": "` + filepath.ToSlash(root) + `~"}`:    "root.json~",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := ReadTrusted("", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestFollowSigstore: a node that trusts an identity applies what that one has signed, and neither what it signed
// earlier nor what anybody else signs.
func TestFollowSigstore(t *testing.T) {
	s := newSite(t)
	sig := signaturetest.New()
	trust := trustFile(t, sig.Root(), trustsSigner)
	publish := func(serial int64, content, identity string) {
		t.Helper()
		at := filepath.Join(s.dir, "prod.tar")
		must(t, os.WriteFile(at, []byte(content), 0o600))
		_, _, err := signed(s.t, Signing{ToSign: true, Serial: serial}, at)
		must(t, err)
		text, err := os.ReadFile(at + textSuffix)
		must(t, err)
		must(t, os.WriteFile(at+Suffix, whole(sig.Sign(text, identity, issuer, time.Now(), 0), text), 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		n := s.node("n")
		n.file.Signers, n.file.Sigstore = "", trust
		for _, c := range []struct {
			serial   int64
			identity string
			code     int
			want     [3]string
			release  int64
			applied  []string
		}{
			{1, "mallory@example.com", 1, [3]string{"False", "Refused", `signed by "mallory@example.com"`}, 0, nil},
			{2, signer, 0, [3]string{"True", "Applied", "release 2, signed by " + signer}, 2, []string{"2"}},
			{1, signer, 1, [3]string{"False", "Refused", "release 1 is older than release 2"}, 2, []string{"2"}},
			{3, signer, 0, [3]string{"True", "Applied", "release 3, signed by " + signer}, 3, []string{"2", "3"}},
		} {
			publish(c.serial, strconv.FormatInt(c.serial, 10), c.identity)
			if code := n.round(t.Context()); code != c.code {
				t.Errorf("release %d: code %d: %q", c.serial, code, n.said)
			}
			n.want(c.want[0], c.want[1], c.want[2], c.release, c.applied...)
		}
	})
}

// TestFollowOpenTrust: files that say whom to trust, and that others may write, are trouble of the machine.
func TestFollowOpenTrust(t *testing.T) {
	s := newSite(t)
	s.publish(1, "first")
	n := s.node("n")
	n.file.Sigstore = trustFile(t, signaturetest.New().Root(), trustsSigner)
	n.applies = func(context.Context, []string) (int, firstboot.Outcome) {
		t.Error("it was applied")
		return exitFailed, firstboot.Failed
	}
	for _, at := range []string{n.Path, s.keys, n.file.Sigstore, filepath.Join(filepath.Dir(n.file.Sigstore),
		"trusted_root.json")} {
		for why := range openFile(t, at) {
			if code := n.round(t.Context()); code != 1 {
				t.Errorf("code %d: %q", code, n.said)
			}
			n.want("False", "Failed", at+" says whom to trust, and "+why, 0)
		}
	}
}

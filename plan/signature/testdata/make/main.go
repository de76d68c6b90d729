// Make writes the signatures that the tests of plan/signature try, with Sigstore's own library and its certificate
// authority for tests: go mod tidy && go run . ..
package main

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	subject = "publisher@example.com"
	issuer  = "https://accounts.example.com"
)

var text = []byte("MZ stand-in for a signed program\n")

func main() {
	dir := os.Args[1]
	trusted, other := must(ca.NewVirtualSigstore()), must(ca.NewVirtualSigstore())
	tr := must(root.NewTrustedRoot(root.TrustedRootMediaType01, trusted.FulcioCertificateAuthorities(), nil, nil,
		trusted.RekorLogs()))
	write(dir, "trusted_root.json", must(tr.MarshalJSON()))
	write(dir, "artifact", text)
	soon := time.Now().Add(5 * time.Minute)
	for _, c := range []struct {
		name            string
		ca              *ca.VirtualSigstore
		subject, issuer string
		text            []byte
		at              time.Time
		good            bool
	}{
		{"good", trusted, subject, issuer, text, soon, true},
		{"other_bytes", trusted, subject, issuer, []byte("another program"), soon, false},
		{"other_subject", trusted, "mallory@example.com", issuer, text, soon, false},
		{"other_issuer", trusted, subject, "https://accounts.example.org", text, soon, false},
		{"expired", trusted, subject, issuer, text, soon.Add(30 * time.Minute), false},
		{"other_authority", other, subject, issuer, text, soon, false},
	} {
		e := must(c.ca.SignAtTime(c.subject, c.issuer, c.text, c.at))
		b := bundleOf(c.ca, e, c.text)
		write(dir, c.name+".json", must(protojson.Marshal(b)))
		err := judge(tr, b)
		if (err == nil) != c.good {
			log.Fatalf("%s: Sigstore's library says %v", c.name, err)
		}
		log.Printf("%s: %v", c.name, err)
	}
	attest(dir, tr, trusted)
	byKey(dir)
}

// byKey writes the signature of a key as cosign makes it, which has no entry of a log, and the key.
func byKey(dir string) {
	key := must(sign.NewEphemeralKeypair(nil))
	pb := must(sign.Bundle(&sign.PlainData{Data: text}, key, sign.BundleOptions{}))
	public := must(key.GetPublicKeyPem())
	write(dir, "keyed.json", must(protojson.Marshal(pb)))
	write(dir, "cosign.pub", []byte(public))
	block, _ := pem.Decode([]byte(public))
	verifier := must(signature.LoadVerifier(must(x509.ParsePKIXPublicKey(block.Bytes)), crypto.SHA256))
	v := must(verify.NewVerifier(root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(verifier, time.Time{}, time.Time{}), nil
	}), verify.WithNoObserverTimestamps()))
	sum := sha256.Sum256(text)
	_, err := v.Verify(must(bundle.NewBundle(pb)), verify.NewPolicy(verify.WithArtifactDigest("sha256", sum[:]),
		verify.WithKey()))
	if err != nil {
		log.Fatalf("keyed: Sigstore's library says %v", err)
	}
}

// attest writes attestations: provenance of the artifact, of another one, and a statement that is none.
func attest(dir string, tr *root.TrustedRoot, c *ca.VirtualSigstore) {
	for _, a := range []struct {
		name, predicate string
		text            []byte
		at              time.Time
		good            bool
	}{
		{"provenance", "https://slsa.dev/provenance/v1", text, time.Now().Add(5 * time.Minute), true},
		{"provenance_other", "https://slsa.dev/provenance/v1", []byte("other"), time.Now().Add(5 * time.Minute), false},
		{"provenance_expired", "https://slsa.dev/provenance/v1", text, time.Now().Add(35 * time.Minute), false},
		// Sigstore's library leaves to its caller what a statement is about.
		{"vulnerabilities", "https://in-toto.io/attestation/vulns/v0.1", text, time.Now().Add(5 * time.Minute), true},
	} {
		other := sha256.Sum256([]byte("a file beside it"))
		sum := sha256.Sum256(a.text)
		statement := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"other","digest":`+
			`{"sha256":"%x"}},{"name":"artifact","digest":{"sha256":"%x"}}],"predicateType":%q,"predicate":{}}`, other, sum,
			a.predicate)
		e := must(c.AttestAtTime(subject, issuer, []byte(statement), a.at, false))
		entry := must(e.TlogEntries())[0]
		tle := entry.TransparencyLogEntry()
		tle.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: must(c.RekorSignPayload(
			tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(tle.CanonicalizedBody),
				IntegratedTime: tle.IntegratedTime, LogIndex: tle.LogIndex, LogID: must(c.RekorLogID())}))}
		tle.KindVersion = &protorekor.KindVersion{Kind: "dsse", Version: "0.0.1"}
		env := must(e.SignatureContent()).EnvelopeContent().RawEnvelope()
		b := &protobundle.Bundle{MediaType: "application/vnd.dev.sigstore.bundle+json;version=0.1",
			VerificationMaterial: &protobundle.VerificationMaterial{
				Content: &protobundle.VerificationMaterial_X509CertificateChain{
					X509CertificateChain: &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{
						{RawBytes: must(e.VerificationContent()).Certificate().Raw}}}},
				TlogEntries: []*protorekor.TransparencyLogEntry{tle}},
			Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
				Payload: must(base64.StdEncoding.DecodeString(env.Payload)), PayloadType: env.PayloadType,
				Signatures: []*protodsse.Signature{{Sig: must(base64.StdEncoding.DecodeString(env.Signatures[0].Sig))}}}}}
		write(dir, a.name+".json", must(protojson.Marshal(b)))
		err := judge(tr, b)
		if (err == nil) != a.good {
			log.Fatalf("%s: Sigstore's library says %v", a.name, err)
		}
		log.Printf("%s: %v", a.name, err)
	}
}

// judge is the verdict of Sigstore's library.
func judge(tr *root.TrustedRoot, pb *protobundle.Bundle) error {
	v := must(verify.NewVerifier(tr, verify.WithTransparencyLog(1), verify.WithIntegratedTimestamps(1)))
	b, err := bundle.NewBundle(pb)
	if err != nil {
		return err
	}
	id := must(verify.NewShortCertificateIdentity(issuer, "", subject, ""))
	sum := sha256.Sum256(text)
	_, err = v.Verify(b, verify.NewPolicy(verify.WithArtifactDigest("sha256", sum[:]),
		verify.WithCertificateIdentity(id)))
	return err
}

func bundleOf(c *ca.VirtualSigstore, e *ca.TestEntity, text []byte) *protobundle.Bundle {
	content := must(e.VerificationContent())
	sig := must(e.SignatureContent())
	entry := must(e.TlogEntries())[0]
	tle := entry.TransparencyLogEntry()
	set := must(c.RekorSignPayload(tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(tle.CanonicalizedBody),
		IntegratedTime: tle.IntegratedTime, LogIndex: tle.LogIndex, LogID: must(c.RekorLogID())}))
	tle.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: set}
	tle.KindVersion = &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.1"}
	sum := sha256.Sum256(text)
	return &protobundle.Bundle{MediaType: "application/vnd.dev.sigstore.bundle+json;version=0.1",
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_X509CertificateChain{
				X509CertificateChain: &protocommon.X509CertificateChain{
					Certificates: []*protocommon.X509Certificate{{RawBytes: content.Certificate().Raw}}}},
			TlogEntries: []*protorekor.TransparencyLogEntry{tle}},
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature:     sig.Signature()}}}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func write(dir, name string, b []byte) {
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
		log.Fatal(err)
	}
}

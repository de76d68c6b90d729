package locker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/plan/signature"
	"nodejoin/steps"
)

// published is an upstream with separate signature files, and a log.
type published struct {
	files  map[string]string
	answer string
	asked  []string
}

func (p *published) open(_ context.Context, src steps.Source) (io.ReadCloser, int64, error) {
	text, ok := p.files[src.URL]
	if !ok {
		return nil, 0, errors.New("404 Not Found")
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}

func (p *published) post(_ context.Context, url string, _ []byte, _ int64) ([]byte, error) {
	p.asked = append(p.asked, url)
	return []byte(p.answer), nil
}

// TestSignInParts: a signature and certificate beside the artifact become a bundle with the answer of the log. A
// locked entry stays without another request.
func TestSignInParts(t *testing.T) {
	testdata := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "plan", "signature", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	root, err := signature.ParseRoot(bytes.Replace(testdata("trusted_root.json"), []byte("https://rekor.localhost"),
		[]byte("https://log.example/"), 1))
	if err != nil {
		t.Fatal(err)
	}
	var good struct {
		VerificationMaterial struct {
			X509CertificateChain struct{ Certificates []struct{ RawBytes []byte } }
			TlogEntries          []struct {
				LogIndex, IntegratedTime string
				LogID                    struct{ KeyID []byte }
				InclusionPromise         struct{ SignedEntryTimestamp string }
				CanonicalizedBody        string
			}
		}
		MessageSignature struct{ Signature string }
	}
	if err := json.Unmarshal(testdata("good.json"), &good); err != nil {
		t.Fatal(err)
	}
	e := good.VerificationMaterial.TlogEntries[0]
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: good.VerificationMaterial.X509CertificateChain.Certificates[0].RawBytes})
	sum := sha256.Sum256(testdata("artifact"))
	const at = "https://example.com/kubernetes-node-linux-amd64.tar.gz"
	a := plan.Artifact{Name: "kubernetes_node", OS: "linux", Arch: "amd64", Version: "1.36.3", Address: at,
		Upstream: at,
		Signed: &plan.Signed{Signature: at + ".sig", Certificate: at + ".cert",
			Who: signature.Identity{Subject: "publisher@example.com", Issuer: "https://accounts.example.com"}}}
	p := &published{files: map[string]string{at + ".sig": good.MessageSignature.Signature,
		at + ".cert": base64.StdEncoding.EncodeToString(cert)},
		answer: fmt.Sprintf(`[{"1": {"body": %q, "integratedTime": %s, "logIndex": %s, "logID": %q, `+
			`"verification": {"signedEntryTimestamp": %q}}}]`, e.CanonicalizedBody, e.IntegratedTime, e.LogIndex,
			hex.EncodeToString(e.LogID.KeyID), e.InclusionPromise.SignedEntryTimestamp)}
	l := &signer{open: p.open, post: p.post}
	entry := lock.Entry{Name: a.Name, SHA256: hex.EncodeToString(sum[:])}
	if g := l.sign(t.Context(), a, &entry, nil, root); g != nil {
		t.Fatal(g)
	}
	if entry.Verified != lock.Signature || entry.Signer != "publisher@example.com" || entry.Bundle == "" ||
		len(p.asked) != 1 || p.asked[0] != "https://log.example/api/v1/log/entries/retrieve" {
		t.Errorf("%+v, asked %v", entry, p.asked)
	}
	again := lock.Entry{Name: a.Name, SHA256: entry.SHA256}
	g := l.sign(t.Context(), a, &again, &entry, root)
	if g != nil || again.Bundle != entry.Bundle || len(p.asked) != 1 {
		t.Errorf("%v, %+v, asked %v", g, again, p.asked)
	}
	other := lock.Entry{Name: a.Name, SHA256: strings.Repeat("ab", 32)}
	if g := l.sign(t.Context(), a, &other, &entry, root); g == nil || other.Verified == lock.Signature {
		t.Errorf("%+v is accepted", other)
	}
	delete(p.files, at+".sig")
	if g := l.sign(t.Context(), a, &again, nil, root); g == nil || !strings.Contains(g.Detail, "404") {
		t.Error("an artifact without its signature is accepted", g)
	}
}

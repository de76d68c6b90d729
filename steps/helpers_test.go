package steps_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/record"
)

// memory implements steps.Artifacts over byte slices; archives are .tar.gz.
type memory map[string][]byte

func (m memory) Open(ctx context.Context, src steps.Source) (io.ReadCloser, int64, error) {
	b, ok := m[src.Name()]
	if !ok {
		return nil, 0, &steps.Error{Code: steps.CodeBlobMissing, Summary: "artifact not staged"}
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

func (m memory) Unpack(ctx context.Context, r io.Reader, name, targetOS string, each func(steps.Member, io.Reader) error) error {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	t := tar.NewReader(gz)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(steps.Member{Name: h.Name, Size: h.Size, Executable: h.Mode&0o111 != 0}, t); err != nil {
			return err
		}
	}
}

func tarball(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for i := 0; i < len(files); i += 2 {
		must(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, files[i+1])
		must(t, err)
	}
	must(t, w.Close())
	must(t, gz.Close())
	return b.Bytes()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hex256(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
func hex512(b []byte) string { s := sha512.Sum512(b); return hex.EncodeToString(s[:]) }

func spec(kind, id string, args any) steps.Spec {
	return steps.Spec{ID: id, Kind: kind, Args: steps.MustArgs(args), Timeout: 20 * time.Second}
}

func openHost(t *testing.T, os string) host.Host {
	t.Helper()
	h, err := sandbox.Open(sandbox.Config{Path: t.TempDir(), OS: os})
	must(t, err)
	return h
}

func apply(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) steps.ApplyReply {
	t.Helper()
	reply, err := steps.NewExecutor(h, a, func(event.Event) {}).Apply(t.Context(), steps.Request{Node: "win-1", Steps: list})
	if err != nil {
		return steps.ApplyReply{Err: steps.AsError(err)}
	}
	return reply
}

func applied(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) steps.ApplyReply {
	t.Helper()
	r := apply(t, h, a, list)
	if r.Err != nil {
		t.Fatalf("step %s: %v", r.Failed, r.Err)
	}
	return r
}

// settled wants that a further run neither changes anything nor makes a mutating call.
func settled(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) {
	t.Helper()
	if r := applied(t, h, a, list); len(r.Changed) > 0 || r.Mutations != 0 {
		t.Fatalf("a further run changed %v with %d mutating calls", r.Changed, r.Mutations)
	}
}

func put(t *testing.T, h host.Host, path, text string) {
	t.Helper()
	must(t, h.WriteFile(t.Context(), path, strings.NewReader(text), host.WriteOptions{}))
}

func text(t *testing.T, h host.Host, path string) string {
	t.Helper()
	rc, err := h.Open(t.Context(), path)
	must(t, err)
	defer rc.Close()
	b, err := io.ReadAll(rc)
	must(t, err)
	return string(b)
}

func loadRecord(t *testing.T, h host.Host) *record.Record {
	t.Helper()
	f, err := h.Facts(t.Context())
	must(t, err)
	rec, err := record.Load(t.Context(), h, f)
	must(t, err)
	return rec
}

func testCA(t *testing.T) string {
	t.Helper()
	cert, _ := testCert(t, "ca", time.Hour)
	return cert
}

func testCert(t *testing.T, name string, life time.Duration) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	must(t, err)
	kd, err := x509.MarshalECPrivateKey(k)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kd}))
}

// testAuthority is an authority whose key nobody has.
func testAuthority(t *testing.T) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	must(t, err)
	c, err = x509.ParseCertificate(der)
	must(t, err)
	return c
}

func service(name, exe string, args ...string) *steps.Service {
	return &steps.Service{ServiceConfig: host.ServiceConfig{Name: name, Description: "Test", Command: append([]string{exe}, args...),
		Recovery: []host.RecoveryAction{{Action: "restart", Delay: 10 * time.Second}}, RecoveryReset: 60}}
}

// Package stepstest has what the tests of steps share: a sandbox with quirks, artifacts in memory, certificates.
package stepstest

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
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
)

// Memory implements steps.Artifacts over byte slices; archives are .tar.gz.
type Memory map[string][]byte

// Open implements steps.Artifacts.
func (m Memory) Open(ctx context.Context, src steps.Source) (io.ReadCloser, int64, error) {
	b, ok := m[src.Name()]
	if !ok {
		return nil, 0, &steps.Error{Code: steps.CodeBlobMissing, Summary: "artifact not staged"}
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// Unpack implements steps.Artifacts.
func (m Memory) Unpack(ctx context.Context, r io.Reader, name, targetOS string,
	each func(steps.Member, io.Reader) error) error {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	t := tar.NewReader(gz)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
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

// Tarball packs files, given as name and content in turn, into a .tar.gz.
func Tarball(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for i := 0; i < len(files); i += 2 {
		Must(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, files[i+1])
		Must(t, err)
	}
	Must(t, w.Close())
	Must(t, gz.Close())
	return b.Bytes()
}

// Must fails the test unless err is nil.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Hex256 is the sha256 of b in hex.
func Hex256(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

// Hex512 is the sha512 of b in hex.
func Hex512(b []byte) string { s := sha512.Sum512(b); return hex.EncodeToString(s[:]) }

// Spec is a step with a short timeout.
func Spec(kind, id string, args any) steps.Spec {
	return steps.Spec{ID: id, Kind: kind, Args: steps.MustArgs(args), Timeout: 20 * time.Second}
}

// OpenHost makes a fresh machine of the operating system.
func OpenHost(t *testing.T, os string) host.Host {
	t.Helper()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: os})
	Must(t, err)
	return h
}

// Apply applies list on h as the node win-1.
func Apply(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) executor.ApplyReply {
	t.Helper()
	reply, err := executor.NewExecutor(kinds.Catalog(), h, a, func(event.Event) {}).Apply(t.Context(),
		executor.Request{Node: "win-1", Steps: list})
	if err != nil {
		return executor.ApplyReply{Err: steps.AsError(err)}
	}
	return reply
}

// Plan is an apply of the whole plan of a machine, with what it no longer names.
func Plan(ctx context.Context, h host.Host, a steps.Artifacts, plan string, list []steps.Spec) (executor.CheckReply,
	error) {
	x := executor.NewExecutor(kinds.Catalog(), h, a, func(event.Event) {})
	req := executor.Request{Node: "win-1", Steps: list, Plan: plan, Whole: true}
	found, err := x.Check(ctx, req)
	if err != nil {
		return found, err
	}
	remove := func(early bool) error {
		r, err := x.Remove(ctx, executor.RemoveRequest{Request: req, Early: early})
		if err == nil && r.Err != nil {
			err = r.Err
		}
		return err
	}
	if found.Removals.Pending() > 0 {
		if err := remove(true); err != nil {
			return found, err
		}
	}
	r, err := x.Apply(ctx, req)
	if err == nil && r.Err != nil {
		err = fmt.Errorf("step %s: %w", r.Failed, r.Err)
	}
	if err == nil && (found.Removals.Pending() > 0 || len(r.Changed) > 0) {
		err = remove(false)
	}
	return found, err
}

// Applied is Apply, which must succeed.
func Applied(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) executor.ApplyReply {
	t.Helper()
	r := Apply(t, h, a, list)
	if r.Err != nil {
		t.Fatalf("step %s: %v", r.Failed, r.Err)
	}
	return r
}

// Settled wants that a further run neither changes anything nor makes a mutating call.
func Settled(t *testing.T, h host.Host, a steps.Artifacts, list []steps.Spec) {
	t.Helper()
	if r := Applied(t, h, a, list); len(r.Changed) > 0 || r.Mutations != 0 {
		t.Fatalf("a further run changed %v with %d mutating calls", r.Changed, r.Mutations)
	}
}

// Put writes a file of the machine.
func Put(t *testing.T, h host.Host, path, text string) {
	t.Helper()
	Must(t, h.WriteFile(t.Context(), path, strings.NewReader(text), host.WriteOptions{}))
}

// Text reads a file of the machine.
func Text(t *testing.T, h host.Host, path string) string {
	t.Helper()
	rc, err := h.Open(t.Context(), path)
	Must(t, err)
	defer rc.Close()
	b, err := io.ReadAll(rc)
	Must(t, err)
	return string(b)
}

// LoadRecord reads the machine's record.
func LoadRecord(t *testing.T, h host.Host) *record.Record {
	t.Helper()
	f, err := h.Facts(t.Context())
	Must(t, err)
	rec, err := record.Load(t.Context(), h, f)
	Must(t, err)
	return rec
}

// TestCA is the certificate of a fresh authority, in PEM.
func TestCA(t *testing.T) string {
	t.Helper()
	cert, _ := TestCert(t, "ca", time.Hour)
	return cert
}

// TestCert is a fresh self-signed certificate and its key, in PEM.
func TestCert(t *testing.T, name string, life time.Duration) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	Must(t, err)
	kd, err := x509.MarshalECPrivateKey(k)
	Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kd}))
}

// TestAuthority is an authority whose key nobody has.
func TestAuthority(t *testing.T) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	Must(t, err)
	c, err = x509.ParseCertificate(der)
	Must(t, err)
	return c
}

// Service is a service that runs exe and is restarted when it fails.
func Service(name, exe string, args ...string) *kinds.Service {
	return &kinds.Service{ServiceConfig: host.ServiceConfig{Name: name, Description: "Test",
		Command:  append([]string{exe}, args...),
		Recovery: []host.RecoveryAction{{Action: "restart", Delay: 10 * time.Second}}, RecoveryReset: 60}}
}

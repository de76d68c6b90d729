package modules_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/cmd/nodejoin/internal/modules"
	"nodejoin/plan/source"
)

const promised = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// newCache gives the test a cache of its own.
func newCache(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, t.TempDir())
	}
}

// pack writes an archive with one file of a module.
func pack(t *testing.T, content string) (file, digest string) {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	h := &tar.Header{Name: "main.join.hcl", Size: int64(len(content)), Mode: 0o644, Typeflag: tar.TypeReg}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "archive.tar.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	return file, hex.EncodeToString(sum[:])
}

// bundled returns the options for a plan that came in a bundle, with the same archive for each of its modules.
func bundled(file, digest string) modules.Options {
	return modules.Options{Offline: true, Bundled: func(string) (string, string) { return file, digest }}
}

// TestBundledArchiveOfAnAddress: a bundle cannot give another archive for the module of an address.
func TestBundledArchiveOfAnAddress(t *testing.T) {
	newCache(t)
	file, digest := pack(t, "# other\n")
	r := source.Remote{Address: "https://git.example/nodes.tar.gz", SHA256: promised}
	_, err := modules.Reader(t.Context(), bundled(file, digest))(r)
	if err == nil || !strings.Contains(err.Error(), "has the digest "+digest) {
		t.Fatalf("error %v", err)
	}
	if _, err := modules.Reader(t.Context(), modules.Options{Offline: true})(r); err == nil {
		t.Error("the module is in the cache")
	}
	r.SHA256 = digest
	dir, err := modules.Reader(t.Context(), bundled(file, digest))(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "main.join.hcl")); string(b) != "# other\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestBundledArchiveOfAnArtifact: a bundle has the archive of an OCI artifact and not its manifest, so what it has is
// not the module of other plans.
func TestBundledArchiveOfAnArtifact(t *testing.T) {
	newCache(t)
	file, digest := pack(t, "# other\n")
	r := source.Remote{Address: "oci://registry.example/nodes", SHA256: promised}
	dir, err := modules.Reader(t.Context(), bundled(file, digest))(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "main.join.hcl")); string(b) != "# other\n" {
		t.Errorf("%q, %v", b, err)
	}
	dir, err = modules.Reader(t.Context(), modules.Options{Offline: true})(r)
	if err == nil {
		t.Errorf("another plan has the module of the bundle, %s", dir)
	}
}

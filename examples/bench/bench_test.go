// Package bench_test runs the plan of the benchmark on sandboxes.
package bench_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/plan"
)

// TestBench: the plan of the benchmark does what it says, and a second run changes
// nothing.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	archive := packed(t, "kubelet.exe", "stand-in")
	repo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }))
	defer repo.Close()
	c := exampletest.Compile(t, dir, map[string]string{
		"hosts": `{
			h1 = { address = "192.0.2.1", port = 22, node_ip = "10.0.0.1", pod_cidr = "10.244.1.0/24" },
			h2 = { address = "192.0.2.2", port = 22, node_ip = "10.0.0.2", pod_cidr = "10.244.2.0/24" } }`,
		"identity": "id", "known_hosts": "known_hosts", "repo": repo.URL,
		"archives": fmt.Sprintf(`{ node = "%x" }`, sha256.Sum256(archive)),
		"settings": `{
			api_server = "https://10.0.0.10:6443", cluster_dns = "10.96.0.10", cluster_cidr = "10.244.0.0/16",
			service_cidr = "10.96.0.0/12", pause_image = "pause:3.10", bootstrap_token = "none", kube_version = "1.36.3" }`,
	})
	for i := range c.Nodes {
		c.Nodes[i].Connection = plan.Connection{Type: "sandbox",
			Sandbox: &plan.Sandbox{Path: filepath.Join(dir, ".sandbox", c.Nodes[i].Name)}}
	}
	if len(c.Nodes) != 2 || len(c.Nodes[0].Steps) < 25 {
		t.Fatalf("%d nodes, of %d steps", len(c.Nodes), len(c.Nodes[0].Steps))
	}
	exampletest.Join(t, t.Context(), c)
	text, err := os.ReadFile(filepath.Join(dir, ".sandbox", "h2", "srv", "k", "kubelet.exe"))
	if err != nil || string(text) != "stand-in" {
		t.Errorf("%q, %v", text, err)
	}
	if changed, mutations := exampletest.Run(t, t.Context(), c); len(changed) > 0 || mutations > 0 {
		t.Errorf("the second apply changed %v with %d mutating calls", changed, mutations)
	}
}

func packed(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
	_, writeErr := w.Write([]byte(text))
	if err := errors.Join(err, writeErr, w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// TestPlanSize: a change that many hosts share is shown once, both in a first join and in an upgrade. --full shows
// each host.
func TestPlanSize(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("LocalAppData", os.Getenv("XDG_STATE_HOME"))
	show := func(args ...string) string {
		t.Helper()
		var out, problems bytes.Buffer
		a := &app{term: &ui.Term{Out: &out, Err: &problems, In: strings.NewReader("")}}
		if code := execute(context.Background(), a, append(args, "--display", "quiet")); code != exitOK {
			t.Fatalf("%v: exit code %d\n%s", args, code, problems.String())
		}
		return out.String()
	}
	lines := func(what, text string, most int, want ...string) {
		t.Helper()
		if n := strings.Count(text, "\n"); n > most {
			t.Errorf("%s: %d lines, want at most %d", what, n, most)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", what, w, text)
			}
		}
	}
	lines("300 new nodes", show("plan", manyNodes(t, 300)), 250, "win-1 to win-300 (300 hosts)", "<node>")
	fifty := show("plan", manyNodes(t, 50))
	lines("50 new nodes", fifty, 200, "win-1 to win-50 (50 hosts)", "to create: 800 directory, ")
	dir := manyNodes(t, 4)
	full := show("plan", "--full", dir)
	for _, want := range []string{"of node win-1\n", "of node win-2\n", "of node win-3\n", "of node win-4\n"} {
		if !strings.Contains(full, want) {
			t.Errorf("--full has no %q", want)
		}
	}
	show("apply", "--auto-approve", dir)
	newKubernetes(t, dir)
	lines("an upgrade", show("plan", dir), 45, "win-1 to win-4 (4 hosts)", "each Node is cordoned",
		"<address in the pod network>",
		"digest: sha256:aed1f3f15d0c ->")
}

// manyNodes is the quickstart with n nodes, in its own folder.
func manyNodes(t *testing.T, nodes int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := copyExample(os.DirFS("../../examples/quickstart"), dir); err != nil {
		t.Fatal(err)
	}
	var hosts strings.Builder
	for i := range nodes {
		fmt.Fprintf(&hosts, "    \"win-%d\" = \"198.18.%d.%d\"\n", i+1, i/250, i%250+1)
	}
	editFile(t, filepath.Join(dir, "quickstart.join.hcl"), strings.NewReplacer(
		`{ "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }`, "{\n"+hosts.String()+"  }", `"10.244.0.0/16"`,
		`"10.240.0.0/12"`))
	return dir
}

func editFile(t *testing.T, name string, r *strings.Replacer) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(r.Replace(string(text))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newKubernetes puts another version of Kubernetes into the plan and its mirror.
func newKubernetes(t *testing.T, dir string) {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for _, name := range []string{"kubeadm", "kube-log-runner", "kube-proxy", "kubectl", "kubelet"} {
		h := &tar.Header{Name: "kubernetes/node/bin/" + name + ".exe", Mode: 0o755, Size: 3}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(tw, "new")
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mirror", "kubernetes-node-windows-amd64.tar.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	newer := strings.NewReplacer(`"1.36.3"`, `"1.36.4"`,
		"aed1f3f15d0c7878045551311eb66c81d495a75d253babb4e6f74f6f4f64a700", hex.EncodeToString(sum[:]))
	editFile(t, filepath.Join(dir, "quickstart.join.hcl"), newer)
	editFile(t, filepath.Join(dir, "nodejoin.lock.hcl"), newer)
}

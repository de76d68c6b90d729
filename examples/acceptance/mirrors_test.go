package acceptance_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// mirrorsPlan is a Linux node whose images come from one place; %[1]s is its address, %[2]s
// its name as a registry.
const mirrorsPlan = `
cluster "c" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  kubeconfig = "c.conf"
}
network "none" {}
runtime "containerd" {
  version = "2.4.2"
  registry "registry.k8s.io" {
    mirrors = ["%[1]s/v2/k8s"]
    ca      = file("ca.pem")
  }
  registry "quay.io" {
    mirrors = ["%[1]s"]
    ca      = file("ca.pem")
  }
  registry "%[2]s" { ca = file("ca.pem") }
}
artifact "kubernetes_node" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
artifact "containerd" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
artifact "runc" {
  version = "1.5.2"
  sha256  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
node "lin-1" {
  os = "linux"
  connection "ssh" { host = "192.0.2.1" }
}
`

// TestMirrors: the real containerd runs with the configuration of a plan, pulls the images of each registry
// from where the plan says, and trusts the plan's CA.
func TestMirrors(t *testing.T) {
	ctx, cancel := bounded(t, 3*time.Minute)
	defer cancel()
	var asked struct {
		sync.Mutex
		paths []string
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Lock()
		defer asked.Unlock()
		asked.paths = append(asked.paths, r.URL.Path)
		http.NotFound(w, r)
	}))
	defer server.Close()
	own := strings.TrimPrefix(server.URL, "https://")
	etc, socket := renderMirrors(ctx, t, fmt.Sprintf(mirrorsPlan, server.URL, own),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	runContainerd(ctx, t, "containerd", etc, socket)

	for image, want := range map[string]string{"registry.k8s.io/pause:3.10": "/v2/k8s/pause/manifests/3.10",
		"quay.io/one/two:3": "/v2/one/two/manifests/3", own + "/own:1": "/v2/own/manifests/1"} {
		// The pull fails, because there is no image. What matters is where containerd looked for it.
		out, _ := exec.CommandContext(ctx, componentSet(t).Bin("ctr"), "--address", socket, "images", "pull", "--hosts-dir",
			filepath.Join(etc, "certs.d"), image).CombinedOutput()
		asked.Lock()
		if !slices.Contains(asked.paths, want) {
			t.Errorf("%s: containerd asked for %q, want %s among them\n%s", image, asked.paths, want, out)
		}
		asked.paths = nil
		asked.Unlock()
	}
}

// renderMirrors returns a copy of the node's /etc/containerd, with other folders than the machine's in it, and
// the socket of a containerd that uses it.
func renderMirrors(ctx context.Context, t *testing.T, plan string, ca []byte) (etc, socket string) {
	t.Helper()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "a.join.hcl"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := released(t).command(ctx, t, "render", "--out", out, file).CombinedOutput(); err != nil {
		t.Fatalf("render: %v\n%s", err, b)
	}
	etc = filepath.Join(out, "lin-1", "files", "etc", "containerd")
	err := filepath.WalkDir(etc, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = laterValue.ReplaceAll(text, []byte("false"))
		for from, to := range map[string]string{"/etc/containerd": etc, "/var/lib/containerd": filepath.Join(dir, "root"),
			"/run/containerd": filepath.Join(dir, "state")} {
			text = bytes.ReplaceAll(text, []byte(from), []byte(to))
		}
		return os.WriteFile(path, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return etc, filepath.Join(dir, "state", "containerd.sock")
}

// runContainerd runs a program of containerd with the configuration in etc until the test ends, and
// waits until it answers at its socket.
func runContainerd(ctx context.Context, t *testing.T, program, etc, socket string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(componentSet(t).Bin(program), "--config", filepath.Join(etc, "config.toml"))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() || strings.Contains(log.String(), migrated) {
			t.Errorf("containerd's log:\n%s", tail(log.String()))
		}
	})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for exec.CommandContext(ctx, componentSet(t).Bin("ctr"), "--address", socket, "--timeout", "5s",
		"version").Run() != nil {
		select {
		case <-ctx.Done():
			t.Fatal("containerd does not answer")
		case <-tick.C:
		}
	}
}

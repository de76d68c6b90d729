package recipe_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/host"
)

// dockerNode is a node with docker, either from an archive in upstream's layout or as
// the service that the machine already has.
func dockerNode(t *testing.T, installed bool) *node {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"docker/docker.exe", "docker/dockerd.exe", "docker/library.dll",
		"docker/metadata.json"} {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("stand-in for " + name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "docker-20.10.24.zip")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	return newNode(t, func(in *recipe.Input, _ string) {
		in.Kubernetes, in.Runtime = "1.22.17", recipe.Runtime{Kind: "docker", Version: "20.10.24", Installed: installed}
		in.Artifacts[compat.KubernetesNode] = kubernetesArchive(t, in.Kubernetes)
		in.Artifacts["docker"] = steps.Source{File: path, SHA256: hex.EncodeToString(sum[:])}
	})
}

// kubernetesArchive returns an archive with stand-ins for the node programs of a version.
func kubernetesArchive(t *testing.T, version string) steps.Source {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range []string{"kubelet.exe", "kube-proxy.exe", "kube-log-runner.exe"} {
		text := "stand-in for " + name + " v" + version + "\n"
		if err := w.WriteHeader(&tar.Header{Name: "kubernetes/node/bin/" + name, Mode: 0o755,
			Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "kubernetes-node-windows-amd64.tar.gz")
	if err := errors.Join(w.Close(), gz.Close(), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	return steps.Source{File: path, SHA256: hex.EncodeToString(sum[:])}
}

// TestDockerJoinsSandbox: a plan with docker converges, the next run finds nothing to do, and a changed
// configuration of docker is fixed.
func TestDockerJoinsSandbox(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := dockerNode(t, false)
	n.converge(t, ctx)
	h := n.machine(t)
	if err := h.ProbePipe(ctx, `\\.\pipe\docker_engine`, ""); err != nil {
		t.Fatalf("docker's pipe: %v", err)
	}
	if _, err := h.Stat(ctx, `C:\Program Files\docker\library.dll`); err != nil {
		t.Error(err)
	}
	const config = `C:\ProgramData\docker\config\daemon.json`
	if err := h.WriteFile(ctx, config, strings.NewReader("{}"), host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := n.run(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := r.apply(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// docker keeps running: it was started with the content that the file has again.
	if !slices.Equal(changed, []string{"docker_config"}) {
		t.Errorf("changed %v", changed)
	}
	n.converge(t, ctx)
}

// TestInstalledDocker: a docker that the machine already has must run and is not changed.
func TestInstalledDocker(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := dockerNode(t, true)
	if _, err := n.run(ctx, n.machine(t)); err == nil ||
		!strings.Contains(err.Error(), "service docker is not registered") {
		t.Fatalf("without docker: %v", err)
	}
	h := n.machine(t)
	const dockerd = `C:\docker\dockerd.exe`
	if err := h.WriteFile(ctx, dockerd, strings.NewReader("stand-in"),
		host.WriteOptions{Access: host.AccessProgram}); err != nil {
		t.Fatal(err)
	}
	own := host.ServiceConfig{Name: "docker", Command: []string{dockerd, "--run-service"}, Start: host.StartAuto}
	if err := h.CreateService(ctx, own); err != nil {
		t.Fatal(err)
	}
	if _, err := n.run(ctx, n.machine(t)); err == nil || !strings.Contains(err.Error(), "service docker is stopped") {
		t.Fatalf("with docker stopped: %v", err)
	}
	if err := h.StartService(ctx, "docker"); err != nil {
		t.Fatal(err)
	}
	n.converge(t, ctx)
	if svc, err := h.Service(ctx, "docker"); err != nil || !slices.Equal(svc.Command, own.Command) ||
		svc.Description != "" {
		t.Errorf("the machine's service is now %+v, %v", svc, err)
	}
}

package acceptance_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// loginsPlan is a Linux node whose registries want credentials: %[1]s asks for a password itself, %[2]s sends to a
// server that gives tokens, %[3]s wants a certificate of the client. %[4]s is the version of containerd.
const loginsPlan = `
cluster "c" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  sandbox    = "cluster"
}
network "none" { ready = false }
runtime "containerd" {
  version = "%[4]s"
  registry "%[1]s" {
    ca           = file("ca.pem")
    username     = "` + registryUser + `"
    password_env = "PULL_PASSWORD"
  }
  registry "%[2]s" {
    ca           = file("ca.pem")
    username     = "` + registryUser + `"
    password_env = "PULL_PASSWORD"
  }
  registry "%[3]s" {
    ca                 = file("ca.pem")
    client_certificate = file("client.pem")
    client_key_file    = "client.key"
  }
}
node "lin-1" {
  os = "linux"
  connection "sandbox" { path = "machine" }
}
`

// TestRegistryLogins: the real containerd, with the files that nodejoin has written, is asked by nodejoin to pull from
// distribution's registry with TLS and each kind of login. Before 2.1 it needs another place for passwords.
func TestRegistryLogins(t *testing.T) {
	ctx, cancel := bounded(t, 5*time.Minute)
	defer cancel()
	a := newRegistryCA(t)
	storage := t.TempDir()
	basic := a.basic(ctx, storage)
	byToken, byCertificate := a.byToken(ctx, storage), a.byCertificate(ctx, storage)
	a.sign("client", false)
	a.push(ctx, basic, "app")
	for _, addr := range []string{basic, byToken, byCertificate} { // nobody gets the image without a login
		resp, err := a.client("").Get("https://" + addr + "/v2/app/manifests/1")
		if err == nil {
			_ = resp.Body.Close()
		}
		refused := err != nil // the handshake of TLS
		if refused != (addr == byCertificate) || !refused && resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%s without credentials: %v, %v", addr, resp, err)
		}
	}
	for version, program := range map[string]string{"2.4.2": "containerd", "1.7.35": "containerd-1.7"} {
		t.Run(version, func(t *testing.T) {
			etc, socket := applyLogins(ctx, t, a, fmt.Sprintf(loginsPlan, basic, byToken, byCertificate, version))
			runContainerd(ctx, t, program, etc, socket)
			dir := t.TempDir()
			for _, addr := range []string{basic, byToken, byCertificate} {
				if out, code := pullImage(ctx, t, dir, socket, addr+"/app:1"); code != 0 {
					t.Errorf("pull from %s: exit %d\n%s", addr, code, out)
				}
				if out, code := pullImage(ctx, t, dir, socket, addr+"/app:1"); code != 0 ||
					!strings.Contains(out, "No changes") {
					t.Errorf("%s again: exit %d, want no changes\n%s", addr, code, out)
				}
			}
			if out, code := pullImage(ctx, t, dir, socket, basic+"/none:1"); code == 0 ||
				!strings.Contains(out, "the container runtime cannot pull "+basic+"/none:1") {
				t.Errorf("an image that the registry does not have: exit %d\n%s", code, out)
			}
		})
	}
}

// pullImage applies a plan for this machine in dir, whose one step has the runtime at socket pull an image.
func pullImage(ctx context.Context, t *testing.T, dir, socket, image string) (out string, code int) {
	t.Helper()
	plan := fmt.Sprintf("node \"here\" {\n  os = \"linux\"\n  data_dir = %q\n  connection \"local\" {}\n}\n"+
		"step \"image\" \"app\" {\n  address = %q\n  image = %q\n}\n", filepath.Join(dir, "data"), socket, image)
	if err := os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := released(t).command(ctx, t, "apply", "--auto-approve", dir)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// applyLogins applies a plan to a machine in a folder, and returns a copy of its /etc/containerd for this machine,
// with the socket of a containerd that uses it.
func applyLogins(ctx context.Context, t *testing.T, a *registryCA, plan string) (etc, socket string) {
	t.Helper()
	dir := t.TempDir()
	for name, file := range map[string]string{"kubernetes_node": "kubernetes-node-linux-amd64.tar.gz",
		"containerd": "containerd-2.2.1-linux-amd64.tar.gz", "runc": "runc.amd64"} {
		file = filepath.Join(repository(t), "examples", "quickstart", "mirror", file)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plan += fmt.Sprintf("artifact %q {\n  file   = %q\n  sha256 = \"%x\"\n}\n", name, file, sha256.Sum256(b))
	}
	for _, name := range []string{"ca.pem", "client.pem", "client.key"} {
		b, err := os.ReadFile(a.file(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := released(t).command(ctx, t, "apply", "--auto-approve", dir)
	cmd.Env = append(cmd.Env, "PULL_PASSWORD="+registryPassword)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	if strings.Contains(string(out), registryPassword) {
		t.Errorf("apply shows the password:\n%s", out)
	}
	etc = filepath.Join(dir, "etc")
	from := filepath.Join(dir, "machine", "etc", "containerd")
	if err := os.CopyFS(etc, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	private := false
	err = filepath.WalkDir(etc, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		private = private || strings.Contains(string(text), registryPassword) ||
			strings.Contains(string(text), "Basic ")
		for from, to := range map[string]string{"/etc/containerd": etc, "/var/lib/containerd": filepath.Join(dir, "root"),
			"/run/containerd": filepath.Join(dir, "state")} {
			text = []byte(strings.ReplaceAll(string(text), from, to))
		}
		return os.WriteFile(path, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if !private {
		t.Fatal("no file of containerd has the password")
	}
	return etc, filepath.Join(dir, "state", "containerd.sock")
}

package acceptance_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// linuxPlan has steps only, and no cluster. `go build` alone made the program that runs it, so that its agent
// is built from the module's source.
const linuxPlan = `
variable "port" { type = number }
variable "text" {
  type    = string
  default = "first"
}
variable "state" {
  type    = string
  default = "running"
}

node "box" {
  os       = "linux"
  data_dir = "%[1]s/data"
  connection "ssh" {
    host        = "127.0.0.1"
    port        = var.port
    user        = "root"
    identity    = ["%[1]s/user"]
    known_hosts = ["%[1]s/known_hosts"]
  }
}

step "preflight" "linux" {
  os   = "linux"
  only = ["operating-system", "administrator"]
}

step "archive" "tools" {
  file   = "tools.tar.gz"
  sha256 = "%[2]s"
  to     = "%[1]s/tools"
  after  = ["linux"]
}

step "file" "config" {
  path    = "%[1]s/etc/config"
  content = "kernel ${self.build}, ${var.text}\n"
  access  = "private"
}

step "env" "variable" {
  name  = "NODEJOIN_ACCEPTANCE"
  value = "yes"
  file  = "%[1]s/etc/environment"
}

step "service" "sleeper" {
  name    = "sleeper"
  command = ["%[1]s/tools/sleep", "3600"]
  state   = var.state
  watch   = ["%[1]s/etc/config"]
  after   = ["tools", "config"]
}
`

// TestLinuxOverOpenSSH: the distribution's sshd, a Linux machine and a plan of steps;
// a second apply changes nothing, a third one fixes what was changed by hand.
func TestLinuxOverOpenSSH(t *testing.T) {
	ctx, cancel := bounded(t, 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	sweepAgents(t)
	port := startSSHD(ctx, t, dir)
	digest := writeTools(t, filepath.Join(dir, "tools.tar.gz"), 0)
	if err := os.WriteFile(filepath.Join(dir, "box.join.hcl"), fmt.Appendf(nil, linuxPlan, dir, digest),
		0o600); err != nil {
		t.Fatal(err)
	}
	program := goBuild(t, "linux", "nodejoin-plain", "build", "./cmd/nodejoin")
	run := func(want string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // it also ends what the test started
		defer cancel()
		cmd := exec.CommandContext(ctx, program,
			append([]string{"apply", dir, "--auto-approve", "--display", "plain", "--var", fmt.Sprintf("port=%d", port)},
				args...)...)
		cmd.Dir = repository(t)
		out, err := cmd.CombinedOutput()
		noSecret(t, "apply", out)
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v: %v, want %q:\n%s", cmd.Args, err, want, out)
		}
	}
	run("Applied: 4 changed")
	t.Cleanup(func() { run("Applied: 1 changed", "--var", "text=second", "--var", "state=stopped") })
	run("No changes: 1 host, 5 steps")
	if err := os.WriteFile(filepath.Join(dir, "etc", "config"), []byte("by hand\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("Applied: 1 changed") // the service was started from what is there again
	run("Applied: 2 changed", "--var", "text=second")
	run("No changes: 1 host, 5 steps", "--var", "text=second")
}

// sweepAgents removes the agents of the test from root's home folder when the test ends. sshd uses the home folder
// that the system names, so the test cannot give it another one.
func sweepAgents(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	pattern := filepath.Join(home, ".nodejoin", "agent", "*")
	before, _ := filepath.Glob(pattern) // the pattern is well-formed
	t.Cleanup(func() {
		after, _ := filepath.Glob(pattern)
		for _, name := range after {
			if !slices.Contains(before, name) {
				_ = os.Remove(name)
			}
		}
	})
}

// startSSHD starts the distribution's SSH server on loopback and returns its port. Its keys are in dir: the
// user's in "user", the host's in "known_hosts".
func startSSHD(ctx context.Context, t *testing.T, dir string) int {
	t.Helper()
	for _, name := range []string{"host", "user"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"known_hosts": fmt.Sprintf("[127.0.0.1]:%d %s", addr.Port, hostKey),
		"sshd_config": fmt.Sprintf("ListenAddress %s\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\nStrictModes "+
			"no\nPidFile none\nPermitRootLogin yes\nUsePAM no\nSubsystem sftp internal-sftp\n", addr, dir, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // its privilege separation wants it
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("--- sshd\n%s", log.String())
		}
	})
	for {
		c, err := net.DialTimeout("tcp", addr.String(), time.Second)
		if err == nil {
			c.Close()
			return addr.Port
		}
		if ctx.Err() != nil {
			t.Fatalf("sshd does not listen: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// writeTools creates an archive with one program, this machine's sleep, and returns its sha256. padding is the size of
// a file beside it that does not compress; 0 = there is none.
func writeTools(t *testing.T, name string, padding int) string {
	t.Helper()
	program, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	put := func(name string, text []byte) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("sleep", program)
	if padding > 0 {
		text := make([]byte, padding)
		_, _ = rand.Read(text) // it never fails
		put("padding", text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(out.Bytes())
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}

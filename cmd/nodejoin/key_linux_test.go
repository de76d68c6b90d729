package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the unprivileged user (Debian base-passwd, and the kernel's overflowuid).
const nobody = 65534

// TestKeyOfAnotherUser: a key file that we may not read is reported before nodejoin
// contacts the host. The command runs as an unprivileged user, because root may read
// everything.
func TestKeyOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	// Not t.TempDir: its parent is closed to other users.
	dir, err := os.MkdirTemp("", "nodejoin-key-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	key := filepath.Join(dir, "id")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(key, "a key", 0o600)
	write(filepath.Join(dir, "x.join.hcl"), `node "a" {
  os = "linux"
  connection "ssh" {
    host     = "127.0.0.1"
    port     = `+port+`
    user     = "admin"
    host_key = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    identity = ["id"]
  }
}
step "directory" "d" { path = "/tmp/nodejoin-never-made" }
`, 0o644)
	// The test program acts as nodejoin when it has that name (TestMain).
	program := filepath.Join(dir, "nodejoin")
	copyProgram(t, program)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "plan", dir)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "TERM=dumb"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUnreachable {
		t.Fatalf("want exit code %d, have %v:\n%s", exitUnreachable, err, out)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(out), "|", " ")), " ") // lines are wrapped and framed
	for _, want := range []string{"Error: the key cannot be used", key, "permission denied",
		"declared at x.join.hcl:3,3", "make the file readable for the user that runs nodejoin"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if n := strings.Count(text, "Error:"); n != 1 {
		t.Errorf("%d errors, want one:\n%s", n, out)
	}
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, from)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

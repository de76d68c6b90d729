package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs that TestSops builds from their modules.
const (
	sopsProgram = "github.com/getsops/sops/v3/cmd/sops@v3.13.3"
	ageProgram  = "filippo.io/age/cmd/age-keygen@v1.3.2"
)

// TestSops: the real sops decrypts a file with a key of age, by the block of examples/data.md. The password is in the
// step's file and in no other that the run leaves. It fetches modules, so it runs only where NODEJOIN_TEST_RELEASE is
// set.
func TestSops(t *testing.T) {
	if os.Getenv("NODEJOIN_TEST_RELEASE") == "" {
		t.Skip("builds sops, which takes minutes the first time; set NODEJOIN_TEST_RELEASE")
	}
	dir := t.TempDir()
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = in
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, exitText(err))
		}
		return string(out)
	}
	bin := filepath.Join(dir, "bin")
	for _, program := range []string{sopsProgram, ageProgram} {
		cmd := exec.CommandContext(t.Context(), "go", "install", "-trimpath", "-ldflags=-s -w", program)
		cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	key := filepath.Join(dir, "key")
	run(dir, "age-keygen", "-o", key)
	const password = "correct horse battery staple"
	plain, work := filepath.Join(dir, "plain.yaml"), filepath.Join(dir, "plan")
	if err := os.WriteFile(plain, []byte("token: "+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := run(dir, "sops", "encrypt", "--age", strings.TrimSpace(run(dir, "age-keygen", "-y", key)), plain)
	if strings.Contains(secret, password) || !strings.Contains(secret, "ENC[AES256_GCM") {
		t.Fatalf("sops encrypts nothing:\n%s", secret)
	}
	if err := os.Remove(plain); err != nil {
		t.Fatal(err)
	}
	block := ""
	for _, b := range blocksOf(t, "examples/data.md") {
		if b.language == "hcl" && strings.Contains(b.text, `"sops"`) {
			block = b.text
		}
	}
	const node = `
node "web" {
  os = "linux"
  connection "sandbox" { path = "machine" }
}
`
	for name, text := range map[string]string{"web.join.hcl": block + node, "secrets.enc.yaml": secret} {
		if err := os.MkdirAll(work, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apply := exec.CommandContext(t.Context(), os.Args[0], "apply", "--auto-approve", work)
	apply.Args[0] = "nodejoin"
	apply.Env = os.Environ()
	out, err := apply.CombinedOutput()
	if err == nil {
		t.Fatalf("it applies without the key:\n%s", out)
	}
	apply = exec.CommandContext(t.Context(), os.Args[0], "apply", "--auto-approve", work)
	apply.Args[0] = "nodejoin"
	apply.Env = append(os.Environ(), "SOPS_AGE_KEY_FILE="+key)
	if out, err = apply.CombinedOutput(); err != nil || bytes.Contains(out, []byte(password)) {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	var with []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(password)) {
			with = append(with, path)
		}
		return err
	})
	if want := filepath.Join(work, "machine", "etc", "web.token"); err != nil || len(with) != 1 || with[0] != want {
		t.Errorf("the password is in %v, want %s only: %v", with, want, err)
	}
}

// exitText is what a program printed on standard error.
func exitText(err error) string {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return string(e.Stderr)
	}
	return ""
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// runImage runs the entrypoint with the image as the root folder if this user may do that, or else beside it.
func runImage(t *testing.T, rootfs string, c v1.Config) {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), c.Entrypoint[0], args...)
		cmd.Env, cmd.Dir = c.Env, c.WorkingDir
		if os.Getuid() == 0 {
			user := &syscall.Credential{Uid: imageUser, Gid: imageUser}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: rootfs, Credential: user}
		} else {
			cmd.Path, cmd.Dir = filepath.Join(rootfs, c.Entrypoint[0]), t.TempDir()
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("version"); !strings.Contains(out, "1.2.3") {
		t.Errorf("version: %s", out)
	}
	if os.Getuid() != 0 {
		return
	}
	// A whole run: the folders that it needs are writable.
	if err := os.Chmod(filepath.Dir(rootfs), 0o755); err != nil {
		t.Fatal(err)
	}
	plan := "node \"a\" {\n  os = \"linux\"\n  connection \"sandbox\" { path = \"box\" }\n}\n" +
		"step \"file\" \"f\" {\n  on = node.a\n  path = \"/srv/f\"\n  content = \"x\"\n}\n"
	if err := os.WriteFile(filepath.Join(rootfs, imagePlan, "x.join.hcl"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run("apply", "--auto-approve"); !strings.Contains(out, "Applied: 1 changed") {
		t.Errorf("apply: %s", out)
	}
	if out := run("history"); !strings.Contains(out, "nodejoin") {
		t.Errorf("history: %s", out)
	}
}

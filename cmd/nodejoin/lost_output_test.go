//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLostOutputs: if a command cannot write its output because the disk is full or the reader has gone, it reports
// that, also by its exit code.
func TestLostOutputs(t *testing.T) {
	dir := t.TempDir()
	text := "node \"a\" {\n  os = \"linux\"\n  connection \"sandbox\" { path = \"box\" }\n}\n" +
		"step \"file\" \"f\" {\n  on = node.a\n  path = \"/srv/f\"\n  content = \"x\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "x.join.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"version", "version --json", "--help", "plan --help", "completion bash",
		"validate --json .", "plan .", "plan --json .", "plan --format markdown .", "apply .", "apply --json .",
		"status .", "status --json .", "status --format markdown .",
		"graph .", "history .", "history --json .",
		"leave --json --auto-approve --target a ."} {
		t.Run(line, func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip(err)
			}
			defer full.Close()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
			defer w.Close()
			for name, out := range map[string]*os.File{"full": full, "gone": w} {
				t.Run(name, func(t *testing.T) {
					var said bytes.Buffer
					cmd := exec.Command("nodejoin", strings.Fields(line)...)
					cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, &said
					cmd.Env = append(os.Environ(), "HOME="+dir, "TERM=dumb")
					if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitOutput ||
						!strings.Contains(said.String(), "could not be written") {
						t.Errorf("%v\n%s", err, said.String())
					}
				})
			}
		})
	}
}

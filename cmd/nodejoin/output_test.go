package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// TestPanicReport: a panic has its own exit code and leaves a report without the command's arguments.
func TestPanicReport(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", os.Getenv("TMPDIR"))
	var w strings.Builder
	code := guarded(&w, "apply", func() int { panic("an index out of range\x1b[2J") })
	if code != exitPanic || !strings.Contains(w.String(), "internal error: an index out of range") ||
		strings.Contains(w.String(), "\x1b") {
		t.Errorf("exit code %d, %q", code, w.String())
	}
	name := regexp.MustCompile(`\S+nodejoin-panic-\S+\.txt`).FindString(w.String())
	report, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{version, `command "apply"`, "an index out of range", "TestPanicReport"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if guarded(&w, "apply", func() int { return exitReboot }) != exitReboot {
		t.Error("a command that does not panic has the wrong exit code")
	}
}

// TestInterruptedJSON: the JSON ends with a summary even if the command is interrupted while it reads its hosts.
func TestInterruptedJSON(t *testing.T) {
	dir := t.TempDir()
	const text = `node "a" {
  os = "windows"
  connection "sandbox" { path = "box" }
}
step "file" "f" {
  on      = node.a
  path    = "C:\\f.txt"
  content = "x"
}
`
	if err := os.WriteFile(filepath.Join(dir, "x.join.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"apply", "--json", dir}, {"leave", "--json", "--target", "a", dir}} {
		var out bytes.Buffer
		code := execute(ctx, &app{term: &ui.Term{Out: &out, Err: io.Discard}}, args)
		lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
		var last struct {
			Type     string `json:"type"`
			ExitCode int    `json:"exit_code"`
		}
		if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Type != "summary" ||
			last.ExitCode != exitInterrupted || code != exitInterrupted {
			t.Errorf("%v: exit code %d (%v)\n%s", args, code, err, out.String())
		}
	}
}

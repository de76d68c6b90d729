package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPowerShell: the completion script, and the blocks in PowerShell of all pages, are PowerShell.
func TestPowerShell(t *testing.T) {
	parse := parser(t)
	if wrong, ok := parse("if ($x { echo }"); ok {
		t.Fatalf("the parser takes what is not PowerShell: %s", wrong)
	}
	if wrong, ok := parse(printed(t, "completion", "powershell")); !ok {
		t.Errorf("nodejoin completion powershell: %s", wrong)
	}
	n := 0
	for _, page := range pages(t) {
		for _, b := range blocksOf(t, page) {
			if b.language != "powershell" {
				continue
			}
			n++
			if wrong, ok := parse(b.text); !ok {
				t.Errorf("%s: %s", b, wrong)
			}
		}
	}
	if n == 0 {
		t.Error("no page has PowerShell")
	}
}

// parser returns a function that reports where a text is not PowerShell. It skips without Node.js and the parser.
func parser(t *testing.T) func(text string) (string, bool) {
	t.Helper()
	if os.Getenv("NODEJOIN_TEST_RELEASE") == "" {
		t.Skip("the parser takes a quarter of a minute; .ci/run has a part for it, with NODEJOIN_TEST_RELEASE=1")
	}
	dir := filepath.Join("testdata", "powershell")
	node, err := exec.LookPath("node")
	if _, statErr := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		err = statErr
	}
	if err != nil {
		t.Skipf("no parser of PowerShell (.ci/programs installs it, with npm): %v", err)
	}
	return func(text string) (string, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // 12 s of a processor
		defer cancel()
		c := exec.CommandContext(ctx, node, "--liftoff", "--no-wasm-tier-up", filepath.Join(dir, "parse.js"))
		c.Stdin = strings.NewReader(text)
		out, err := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != 0 && code != 1 {
			t.Fatalf("the parser: %v\n%s", err, out)
		}
		return fmt.Sprintf("not PowerShell at\n%s", out), err == nil
	}
}

// printed is what a command of nodejoin prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Args[0] = "nodejoin"
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

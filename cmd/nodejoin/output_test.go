package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPanicReport: a panic has an exit code of its own and leaves a report without the arguments of the command.
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
		t.Error("a command that ends has another exit code")
	}
}

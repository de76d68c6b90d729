package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestDiagnosticsSchema: validate --json keeps to the names and types that scripts
// rely on. A field more is a new one here, and a field less is a new format_version.
func TestDiagnosticsSchema(t *testing.T) {
	dir := t.TempDir()
	src := "node \"a\" {\n  oss = \"windows\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "nodejoin", "validate", "--json", dir)
	out, err := c.Output()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != exitInvalid {
		t.Fatalf("validate: %v", err)
	}
	var have struct {
		FormatVersion string       `json:"format_version"`
		Valid         bool         `json:"valid"`
		Errors        int          `json:"error_count"`
		Warnings      int          `json:"warning_count"`
		Diagnostics   []diagnostic `json:"diagnostics"`
	}
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&have); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if have.FormatVersion != "1" || have.Valid || have.Errors == 0 || have.Errors+have.Warnings != len(have.Diagnostics) {
		t.Errorf("%s", out)
	}
	for _, g := range have.Diagnostics {
		if g.Severity != "error" && g.Severity != "warning" || g.Summary == "" || g.Detail == "" {
			t.Errorf("diagnostic without severity, summary or detail: %+v", g)
		}
	}
	if !slices.ContainsFunc(have.Diagnostics, func(g diagnostic) bool { return g.Range != nil && g.Range.Start == pos{2, 3, 13} }) {
		t.Errorf("no diagnostic at the unknown argument: %s", out)
	}
}

type pos struct{ Line, Column, Byte int }

type diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Range    *struct {
		File  string `json:"file"`
		Start pos    `json:"start"`
		End   pos    `json:"end"`
	} `json:"range"`
}

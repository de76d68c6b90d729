package main

import (
	"os"
	"strings"
	"testing"
)

// TestBuiltWith: a Go with a known defect on Windows (golang/go#80979) builds no release.
func TestBuiltWith(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version, built, refused string
	}{
		{"v1.2.3", "go1.26.8", "go1.26.11"},
		{"v1.2.3", "go1.26.10 X:nocoverageredesign", "go1.26.11"},
		{"v1.2.3", "go1.26.11", ""},
		{"v1.2.3", "go1.27.4", ""},
		{"v1.2.3-ci", "go1.26.8", ""},
		{"dev", "go1.26.8", ""},
	} {
		err := (&release{version: c.version}).builtWith(c.built, string(text))
		if (c.refused == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s built with %s: %v", c.version, c.built, err)
		}
	}
	if err := (&release{version: "v1.2.3"}).builtWith("go1.27.4", "module x\n"); err == nil {
		t.Error("a go.mod without a toolchain was accepted")
	}
}

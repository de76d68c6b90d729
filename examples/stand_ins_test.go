package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nodejoin/examples/internal/exampletest"
)

// TestStandIns: each row about a stand-in for Windows names files, tests and evidence that
// exist. Each source file of the stand-ins under Wine has a row.
func TestStandIns(t *testing.T) {
	tests := exampletest.TestNames(t, "..")
	for _, folder := range []string{"acceptance/wine", "acceptance/internal/hns"} {
		text, err := os.ReadFile(filepath.Join(folder, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "| `") {
				continue
			}
			rows++
			checkStandIn(t, folder, strings.TrimSpace(line), tests)
		}
		if rows == 0 {
			t.Errorf("%s: no rows", folder)
		}
		sources, err := filepath.Glob(filepath.Join(folder, "*.[chr]*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sources {
			if name := filepath.Base(source); !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s: no row names %s", folder, name)
			}
		}
	}
}

func checkStandIn(t *testing.T, folder, row string, tests map[string]bool) {
	t.Helper()
	cells := strings.Split(strings.Trim(row, "| "), " | ")
	if len(cells) != 5 || slices.Contains(cells, "") {
		t.Errorf("%s: not five cells: %s", folder, row)
		return
	}
	for _, name := range strings.Fields(cells[0]) {
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(strings.Trim(name, "`")))); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
	}
	named := regexp.MustCompile(`\bTest\w+`).FindAllString(cells[3], -1)
	if len(named) == 0 {
		t.Errorf("%s: no test: %s", folder, row)
	}
	for _, name := range named {
		if !tests[name] {
			t.Errorf("%s: there is no test %s", folder, name)
		}
	}
	if cells[4] == "no evidence" {
		return
	}
	for _, name := range strings.Fields(cells[4]) {
		if _, err := os.Stat(filepath.Join("evidence", name)); err != nil || !strings.HasSuffix(name, ".json") {
			t.Errorf("%s: %q is not a file of evidence: %v", folder, name, err)
		}
	}
}

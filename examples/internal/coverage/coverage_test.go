package coverage

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write coverage.md")

// open are the rows without a proof yet. Remove a row when it has a proof. A new row
// needs a reason that convinces a reader.
var open = strings.Fields(``)

// counts are the numbers of rows of each document.
var counts = map[string]int{"S4": 26, "S3": 45, "S1": 9, "S0": 10, "S2": 8}

func TestRows(t *testing.T) {
	root, err := Root(here(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	have := map[string]int{}
	for _, d := range Documents {
		for _, r := range d.Rows {
			if seen[r.ID] {
				t.Errorf("two rows have the id %s", r.ID)
			}
			seen[r.ID] = true
			document, _, _ := strings.Cut(r.ID, "-")
			have[document]++
			if err := r.Check(root); err != nil {
				t.Error(err)
			}
			if r.Open != "" {
				t.Logf("open: %s, %s: %s", r.ID, r.What, r.Open)
			}
		}
	}
	for document, n := range counts {
		if have[document] != n {
			t.Errorf("%d rows of %s, want %d", have[document], document, n)
		}
	}
	if list := Open(); !slices.Equal(list, open) {
		t.Errorf("open rows:\n%s\nwant\n%s", strings.Join(list, " "), strings.Join(open, " "))
	}
}

// TestCurrent: coverage.md matches the list.
func TestCurrent(t *testing.T) {
	file := filepath.Join(here(t), "..", "..", "coverage.md")
	want := Markdown()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("coverage.md is not current (%v): go generate ./examples/internal/coverage", err)
	}
}

// TestCheckRefuses: a proof that does not exist is refused.
func TestCheckRefuses(t *testing.T) {
	root, err := Root(here(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Proof{Example("none"), Test("steps", "TestNone"), Test("none", "TestLeave"), Script("none"),
		Refused("none", "unknown flag"),
		Refused("kubelet_flags", "none"), Warned("kubelet_flags", "unknown flag"), Compiled("none"), Finding("none"),
		Doc("README.md", "None"), Doc("none.md", "A plan")} {
		if err := (Row{ID: "X", Proof: []Proof{p}}).Check(root); err == nil {
			t.Errorf("%+v passes", p)
		}
	}
	for _, r := range []Row{{ID: "X"}, {ID: "X", Open: "not yet", Proof: []Proof{Finding("memory")}}} {
		if err := r.Check(root); err == nil {
			t.Errorf("%+v passes", r)
		}
	}
	if err := (Row{ID: "X", Proof: []Proof{Finding("memory"), Doc("README.md", "A plan"),
		Test("steps/kinds", "TestLeave")}}).Check(root); err != nil {
		t.Error(err)
	}
}

func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

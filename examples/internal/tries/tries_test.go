package tries

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "run the tests and write security.md")
	class  = flag.String("class", "", "with -update: run the tests of this class only")
)

// TestCurrent: security.md names the existing tests and has a row for each class, and no row has a bad result. The
// numbers are from the run that made the page.
func TestCurrent(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "examples", "security.md")
	if *update {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page, err := table(t.Context(), root, *class, string(before))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := list(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	text := string(page)
	if err != nil || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tests) {
		t.Errorf("security.md is not current (%v): go generate ./examples/internal/tries", err)
	}
	for _, c := range append(Classes, Class{Name: "**all**"}) {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(c.Name) + ` \| [1-9]\d* \| \d+ \| 0 \| \d+ \|$`)
		if !row.MatchString(text) {
			t.Errorf("security.md has no row of %q without bad results", c.Name)
		}
	}
}

package coverage

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// TestLinks: every link from a document of the repository to another part of it has a target.
func TestLinks(t *testing.T) {
	root, err := Root(here(t))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"*.md", ".github/*.md", "examples/*.md", "examples/acceptance/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	anchors := map[string]map[string]bool{}
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return fenced.ReplaceAllString(string(text), "")
	}
	n := 0
	for _, file := range files {
		for _, m := range link.FindAllStringSubmatch(read(file), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			path, at, _ := strings.Cut(m[1], "#")
			to := file
			if path != "" {
				to = filepath.Join(filepath.Dir(file), path)
			}
			info, err := os.Stat(to)
			if err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
				continue
			}
			if at == "" || info.IsDir() {
				continue
			}
			if anchors[to] == nil {
				anchors[to] = map[string]bool{}
				for _, h := range heading.FindAllStringSubmatch(read(to), -1) {
					anchors[to][anchor(h[1])] = true
				}
			}
			if !anchors[to][at] {
				t.Errorf("%s links to %s: there is no such heading", file, m[1])
			}
		}
	}
	if len(files) < 8 || n < 150 {
		t.Errorf("only %d links in %d documents", n, len(files))
	}
}

// TestReadmeIsShort: README is one screen. Text that does not fit belongs on a page that it names.
func TestReadmeIsShort(t *testing.T) {
	root, err := Root(here(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > 900 {
		t.Errorf("README.md has %d words, want at most 900", n)
	}
	pages, err := filepath.Glob(filepath.Join(root, "examples", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := "(examples/" + filepath.Base(page) + ")"; !strings.Contains(string(text), name) {
			t.Errorf("README.md does not name %s", name)
		}
	}
}

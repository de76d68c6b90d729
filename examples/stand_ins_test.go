package examples_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStandIns: each row about a stand-in for Windows names files, tests and evidence that
// exist, and each source of those under Wine has a row.
func TestStandIns(t *testing.T) {
	tests := allTests(t)
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

// allTests has the names of the tests of both modules.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	declared, names := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestEvidence: each file of evidence has the fields of evidence/README.md and the name
// of its machine.
func TestEvidence(t *testing.T) {
	files, err := filepath.Glob("evidence/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkEvidence(filepath.Base(file), text); err != "" {
			t.Errorf("%s: %s", file, err)
		}
	}
}

// checkEvidence returns what is wrong with a file of evidence.
func checkEvidence(file string, text []byte) string {
	var e struct {
		Version                                int
		Build, Language, Edition, Commit, Time string
		Run                                    *string
		Results                                []struct{ Name, Outcome, Seen string }
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return err.Error()
	}
	if _, err := time.Parse(time.RFC3339, e.Time); err != nil {
		return err.Error()
	}
	switch {
	case e.Version != 1 || e.Edition == "" || e.Run == nil || len(e.Results) == 0:
		return "a field is missing, or of another version"
	case file != e.Build+"-"+e.Language+".json":
		return "the name is not BUILD-LANGUAGE.json"
	case !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(e.Commit):
		return "commit: not a commit"
	}
	for _, r := range e.Results {
		if r.Name == "" || !slices.Contains([]string{"as expected", "otherwise", "not asked"}, r.Outcome) {
			return "results: " + r.Name + ": outcome " + r.Outcome
		}
	}
	return ""
}

func TestCheckEvidence(t *testing.T) {
	const good = `{"version":1,"build":"20348.1","language":"ko-KR","edition":"ServerStandard",` +
		`"time":"2026-01-02T03:04:05Z","commit":"0123456789012345678901234567890123456789","run":"",` +
		`"results":[{"name":"a","outcome":"otherwise","seen":""}]}`
	if have := checkEvidence("20348.1-ko-KR.json", []byte(good)); have != "" {
		t.Error(have)
	}
	for _, change := range [][2]string{{`"version":1`, `"version":2`}, {`"run":""`, `"ran":""`}, {"otherwise", "fine"},
		{"ko-KR", "en-US"}, {"9\",\"run", "\",\"run"}, {"2026-01-02T", "2026 "}, {"{", "["}} {
		if checkEvidence("20348.1-ko-KR.json", []byte(strings.Replace(good, change[0], change[1], 1))) == "" {
			t.Errorf("%q for %q was taken", change[1], change[0])
		}
	}
}

package report

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/joshdk/go-junit"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// TestSARIFSchema checks the SARIF output against the schema that OASIS publishes. gosec, one of the linters, has it.
func TestSARIFSchema(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "-C", "../../../../examples/acceptance/tools", "list", "-m", "-f",
		"{{.Dir}}", "github.com/securego/gosec/v2").Output()
	if err != nil || strings.TrimSpace(string(dir)) == "" {
		t.Skipf("no linters (go -C examples/acceptance/tools mod download): %v", err)
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "report/sarif/testdata/sarif-schema-2.1.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", text); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("sarif.json")
	hostileOne := []Finding{{ID: hostile, Level: "note", Text: hostile, File: "ä b/%zz\\x.join.hcl", Line: 1}}
	for _, list := range [][]Finding{nil, findings, hostileOne, {{Level: "error"}}} {
		var b bytes.Buffer
		if err := SARIF(&b, "1.2.3", list); err != nil {
			t.Fatal(err)
		}
		have, err := jsonschema.UnmarshalJSON(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(have); err != nil {
			t.Errorf("%v\n%v", err, have)
		}
	}
	bad, _ := jsonschema.UnmarshalJSON(strings.NewReader(`{"version": "2.1.0", "runs": [{"results": []}]}`))
	if schema.Validate(bad) == nil {
		t.Error("the schema accepts a run without a tool")
	}
}

// TestJUnitConsumer: an independent JUnit reader understands the test cases.
func TestJUnitConsumer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "junit.xml")
	if err := WriteJUnit(file, "nodejoin apply", []Case{{Class: "apply", Name: "a", Took: 1500 * time.Millisecond},
		{Class: "apply", Name: "b", Failure: hostile}, {Class: "apply", Name: "c", Skipped: "held"}}); err != nil {
		t.Fatal(err)
	}
	suites, err := junit.IngestFile(file)
	if err != nil || len(suites) != 1 {
		t.Fatalf("%v %v", suites, err)
	}
	s := suites[0]
	if s.Name != "nodejoin apply" || s.Totals.Tests != 3 || s.Totals.Passed != 1 || s.Totals.Failed != 1 ||
		s.Totals.Skipped != 1 || s.Totals.Duration != 1500*time.Millisecond {
		t.Errorf("%+v", s.Totals)
	}
	if failed := s.Tests[1]; failed.Status != junit.StatusFailed || failed.Classname != "apply" ||
		!strings.Contains(failed.Message, "<script>alert(1)") {
		t.Errorf("%+v", failed)
	}
}

// TestMarkdownConsumer: a reader of GitHub's Markdown sees one heading, one paragraph, and in each section that
// unfolds one block with its text, whatever hosts say; no link, no emphasis, no table, no element of theirs.
func TestMarkdownConsumer(t *testing.T) {
	sections := []Section{{"plain", "a\nb", true},
		{"</summary></details><img src=x>", "```\n</details>\n````\n<b>x</b>", false},
		{"*bold* [a](http://b.example)", "    indented\n# title\n| a | b |\n|---|---|", false}, {"empty", "", false}}
	var b bytes.Buffer
	page := Page{Title: "nodejoin plan # 1", Summary: "*a* _b_ <b>c</b> | d | https://e.example [f](g)",
		Sections: sections}
	if err := Markdown(&b, page); err != nil {
		t.Fatal(err)
	}
	source := b.Bytes()
	var got []string
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		lines := ""
		if n.Type() == ast.TypeBlock {
			lines = string(n.Lines().Value(source))
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			got = append(got, "text "+strings.TrimSuffix(lines, "\n"))
		case *ast.HTMLBlock:
			if n.HasClosure() {
				lines += string(n.ClosureLine.Value(source))
			}
			got = append(got, strings.TrimSpace(lines))
		default:
			got = append(got, n.Kind().String())
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if c.Kind() != ast.KindText && c.Kind() != ast.KindString {
					t.Errorf("the %s has a %s", n.Kind(), c.Kind())
				}
			}
		}
	}
	want := []string{"Heading", "Paragraph"}
	for _, s := range sections {
		open := ""
		if s.Open {
			open = " open"
		}
		want = append(want, "<details"+open+"><summary>"+html(s.Title)+"</summary>", "text "+s.Text, "</details>")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, source)
	}
}

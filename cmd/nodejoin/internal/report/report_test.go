package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"nodejoin/cmd/nodejoin/internal/ui"
)

var findings = OfProblems([]ui.Problem{
	{Level: "error", Summary: "wrong type", Detail: "it is a <list>", Range: &ui.Range{File: "p/a b.join.hcl",
		Start: ui.Pos{Line: 3, Column: 5}}},
	{Level: "warning", Summary: "the machine may not fit (disk-space)", Host: "win-1", Source: "p/x.join.hcl:7,1",
		Remedy: "free some"},
	{Level: "error", Summary: "wrong type", Detail: "without a place"},
})

// TestSARIF: the output has the parts of SARIF 2.1.0 that code scanning needs: rules by index, levels, places that
// count from 1, relative URIs.
func TestSARIF(t *testing.T) {
	var b bytes.Buffer
	if err := SARIF(&b, "1.2.3", findings); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, Version string
					Rules         []struct{ ID string }
				}
			}
			ColumnKind string
			Results    []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil || doc.Version != "2.1.0" || len(doc.Runs) != 1 {
		t.Fatalf("%v\n%s", err, b.String())
	}
	run := doc.Runs[0]
	if len(run.Tool.Driver.Rules) != 2 || len(run.Results) != 3 || run.ColumnKind != "unicodeCodePoints" {
		t.Fatalf("%s", b.String())
	}
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Message.Text == "" {
			t.Errorf("%+v", r)
		}
	}
	first, second := run.Results[0], run.Results[1]
	at := first.Locations[0].PhysicalLocation
	if first.Level != "error" || at.ArtifactLocation.URI != "p/a%20b.join.hcl" || at.Region.StartLine != 3 ||
		at.Region.StartColumn != 5 {
		t.Errorf("%+v", first)
	}
	if second.RuleID != "disk-space" || second.Level != "warning" || !strings.Contains(second.Message.Text,
		"What to do: free some") ||
		len(run.Results[2].Locations) != 0 {
		t.Errorf("%+v", second)
	}
	b.Reset()
	if err := SARIF(&b, "1", nil); err != nil || !strings.Contains(b.String(), `"results": []`) {
		t.Errorf("without findings: %v\n%s", err, b.String())
	}
}

// TestMarkdown: a page fits a comment, its sections are closed, and no text breaks out of its place.
func TestMarkdown(t *testing.T) {
	page := FindingsPage("nodejoin check", "1 *error* of @team", findings)
	for i := range 300 {
		page.Sections = append(page.Sections, Section{Title: fmt.Sprintf("<b>host %d, ask @team/all in ops#%d at "+
			"https://example.com or www.example.com", i, i),
			Text: strings.Repeat("``` ä\n", 100)})
	}
	var b bytes.Buffer
	if err := Markdown(&b, page); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if n := utf8.RuneCountInString(text); n > Most || n < Most*3/4 {
		t.Errorf("%d characters", n)
	}
	if strings.Count(text, "<details") != strings.Count(text, "</details>") || !strings.Contains(text, "are left out") {
		t.Errorf("sections are cut:\n%s", text[len(text)-600:])
	}
	for _, want := range []string{"## nodejoin check\n", `1 \*error\* of @`,
		"<details open><summary>error: wrong type (p/a b.join.hcl:3)",
		"&lt;b&gt;host 0", "\n````text\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text[:800])
		}
	}
	for _, bad := range []string{"@team", "ops#1", "https://", "www.example"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q notifies people or is a link", bad)
		}
	}
	b.Reset()
	if err := Markdown(&b, Page{Title: "t", Summary: strings.Repeat("x", 2*Most), Sections: []Section{{"one",
		strings.Repeat("long line ", Most), true}}}); err != nil || utf8.RuneCountInString(b.String()) > Most {
		t.Errorf("a long section: %v, %d characters", err, b.Len())
	}
}

func TestJUnit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "junit.xml")
	if err := WriteJUnit(file, "suite", []Case{{"apply", "win-1", time.Second, "", ""}, {"apply", "win-2", 0,
		"a \x1b<b> & c", ""},
		{"apply", "win-3", 0, "", "not started"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Failure struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil || len(doc.Suites) != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	s := doc.Suites[0]
	if s.Tests != 3 || s.Failures != 1 || s.Skipped != 1 || len(s.Cases) != 3 ||
		!strings.Contains(s.Cases[1].Failure.Message, "<b> & c") {
		t.Errorf("%s", text)
	}
	if err := WriteJUnit("", "suite", nil); err != nil {
		t.Error(err)
	}
}

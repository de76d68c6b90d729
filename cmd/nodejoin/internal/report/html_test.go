package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	htmltext "html"
	"regexp"
	"strings"
	"testing"
	"time"

	"nodejoin/cmd/nodejoin/internal/pagetest"
	"nodejoin/steps/event"
)

// hostile is text that a host may send to break out of its place in the page.
const hostile = "</pre></title><script>alert(1)</script><img src=x onerror=alert(2)>\" ' {{.}} \x1b[2J\u202e " +
	"javascript:alert(3)"

func hostilePage() HTML {
	times := &Recorder{}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range mostLanes + 5 {
		result := "changed"
		if i == 30 {
			result = "failed"
		}
		times.At(event.StepDone{Host: fmt.Sprintf("win-%d%s", i, hostile), Step: hostile, Result: result, Action: "create",
			Duration: time.Duration(i) * time.Second, Summary: hostile}, start.Add(time.Duration(i)*time.Second))
	}
	return HTML{Command: "nodejoin apply", Plan: hostile, Version: "1", At: start, Result: hostile, Summary: hostile,
		Tables:   []HTMLTable{TableOf("Hosts", [][]string{{"A", "B"}, {hostile, hostile}})},
		Findings: []Finding{{ID: hostile, Level: "error", Text: hostile, Why: hostile, Remedy: hostile, Subject: hostile}},
		Sections: []Section{{Title: hostile, Text: "+ " + hostile + "\n  - x\n  ~ y"}},
		Times:    times, Data: map[string]string{"text": hostile}}
}

// TestHTML: a host's text is never markup, the policy allows only the page's own style, and the data is the output of
// --json.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := hostilePage().write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, bad := range []string{"<script", "<img", "\x1b", "\u202e", "http://", "https://", " style=", "url("} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)
	if style == nil || policy == nil ||
		!strings.Contains(htmltext.UnescapeString(policy[1]), "'"+digestOf(style[1])+"'") ||
		!strings.HasPrefix(htmltext.UnescapeString(policy[1]), "default-src 'none';") {
		t.Fatalf("the policy %q does not allow the style", policy)
	}
	for _, want := range []string{`<span class="new">&#43; `, `<span class="gone">  - x`, "5 more hosts",
		`class="host failed-host"`, `<rect class="failed"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	_, data, _ := strings.Cut(text, `id="data">`)
	data, _, _ = strings.Cut(data, "</pre>")
	var back map[string]string
	if err := json.Unmarshal([]byte(htmltext.UnescapeString(data)), &back); err != nil ||
		!strings.Contains(back["text"], "<script>alert(1)</script>") {
		t.Errorf("the data is %v: %q", err, data)
	}
}

// TestHTMLInBrowser: the page fits windows of three widths, in light and dark, and its policy does not block it.
func TestHTMLInBrowser(t *testing.T) {
	p := hostilePage()
	p.Result, p.Plan = "Applied: 3 changed.", "plans/prod"
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{1400, 900, 480} {
		pagetest.Check(t, b.Bytes(), width)
	}
}

// TestTogether: a text that several nodes share appears once.
func TestTogether(t *testing.T) {
	var list []Finding
	for i := range 12 {
		list = append(list, Finding{ID: "long-paths", Level: "note", Text: "off", Subject: fmt.Sprintf("win-%d", i+1)},
			Finding{ID: "disk-space", Level: "error", Text: fmt.Sprintf("%d GB", i%2), Subject: fmt.Sprintf("win-%d", i+1)})
	}
	have := together(list)
	if len(have) != 3 || have[0].Subject != "win-1 to win-12" || !strings.HasPrefix(have[1].Subject, "win-1, win-3") {
		t.Errorf("%+v", have)
	}
}

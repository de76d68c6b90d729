package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/ui"
)

//go:embed report.html
var htmlText string

//go:embed report.css
var cssText string

// htmlPage has the style by its digest: the policy of the page lets nothing else in, no script, no address.
var htmlPage = template.Must(template.New("report").Funcs(template.FuncMap{"lines": diffLines}).Parse(
	strings.NewReplacer("STYLE", cssText, "DIGEST", digestOf(cssText)).Replace(htmlText)))

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// HTML is a report as one page for people.
type HTML struct {
	Command string // "nodejoin plan"
	Plan    string // its name or path
	Version string // of nodejoin
	At      time.Time
	Result  string // in a few words
	Bad     bool   // the result is not what was wanted

	Summary  string
	Tables   []HTMLTable
	Findings []Finding
	Sections []Section // that unfold, with lines of a diff
	// ChangesFirst: the sections stand before the tables.
	ChangesFirst bool
	Times        *Recorder // nil = there was nothing that took time
	Data         any       // what --json prints
}

// HTMLTable is a table with a head.
type HTMLTable struct {
	Title string
	Head  []string
	Rows  [][]string
}

// TableOf is a table whose first row is its head.
func TableOf(title string, rows [][]string) HTMLTable {
	return HTMLTable{Title: title, Head: rows[0], Rows: rows[1:]}
}

// htmlLine is a line of a diff.
type htmlLine struct{ Class, Text string }

func diffLines(text string) (out []htmlLine) {
	classes := map[byte]string{'+': "new", '-': "gone", '~': "differs", '!': "stop", '^': "differs"}
	for _, l := range strings.Split(strings.TrimRight(ui.Clean(text), "\n"), "\n") {
		line := htmlLine{Text: l}
		if t := strings.TrimLeft(l, " \t"); t != "" {
			line.Class = classes[t[0]]
		}
		out = append(out, line)
	}
	return out
}

// WriteHTML writes the page into a file that only its owner can read. An empty name writes nothing.
func WriteHTML(file string, p HTML) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		return fmt.Errorf("--report %s: %w", file, err)
	}
	if err := atomicfile.Write(file, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// escaped is text between tags. html/template makes five characters of each quotation mark, of which JSON has many.
func escaped(text string) template.HTML {
	text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	return template.HTML(text) //nolint:gosec // it is escaped
}

func (p HTML) write(b *bytes.Buffer) error {
	data, err := json.MarshalIndent(p.Data, "", " ")
	if err != nil {
		return err
	}
	clean := ui.CleanLine
	p.Plan, p.Result, p.Summary = clean(p.Plan), clean(p.Result), clean(p.Summary)
	for i, t := range p.Tables {
		rows := make([][]string, len(t.Rows))
		for k, r := range t.Rows {
			for _, cell := range r {
				rows[k] = append(rows[k], clean(cell))
			}
		}
		p.Tables[i].Rows = rows
	}
	for i, f := range p.Findings {
		f.Text, f.Why, f.Remedy, f.Subject = ui.Clean(f.Text), ui.Clean(f.Why), ui.Clean(f.Remedy), clean(f.Subject)
		f.ID, f.File = clean(f.ID), clean(f.File)
		p.Findings[i] = f
	}
	for i, s := range p.Sections {
		p.Sections[i].Title = clean(s.Title)
	}
	return htmlPage.Execute(b, struct {
		HTML
		When     string
		Timeline *timeline
		JSON     template.HTML
	}{p, p.At.UTC().Format("2006-01-02 15:04:05 UTC"), p.Times.draw(), escaped(ui.Clean(string(data)))})
}

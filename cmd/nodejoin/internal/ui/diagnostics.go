package ui

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/steps"
)

// Problem is a diagnostic of a plan or a failure of a run. Source is "file:line,col" if
// the plan has a place for it, else "".
type Problem struct {
	Warning bool   `json:"-"`
	Level   string `json:"severity"` // "error" or "warning"
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	Host    string `json:"host,omitempty"`
	Step    string `json:"step,omitempty"`
	Source  string `json:"source,omitempty"`
	Range   *Range `json:"range,omitempty"`

	hcl *hcl.Range
}

// Short is the problem in a line, without what programs and files say of it.
func (p Problem) Short() string {
	text := CleanLine(p.Summary)
	if p.Step != "" {
		text = "step " + CleanLine(p.Step) + ": " + text
	}
	return text
}

// Range is a place in a plan file, lines and columns from 1.
type Range struct {
	File  string `json:"file"`
	Start Pos    `json:"start"`
	End   Pos    `json:"end"`
}

// Pos is one end of a Range.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// FromHCL turns diagnostics into problems, in the same order.
func FromHCL(diags hcl.Diagnostics) []Problem {
	var out []Problem
	for _, d := range diags {
		p := Problem{Summary: d.Summary, Detail: d.Detail, Level: "error"}
		if d.Severity == hcl.DiagWarning {
			p.Warning, p.Level = true, "warning"
		}
		if d.Subject != nil {
			p.hcl = d.Subject
			p.Range = &Range{File: d.Subject.Filename,
				Start: Pos{d.Subject.Start.Line, d.Subject.Start.Column, d.Subject.Start.Byte},
				End:   Pos{d.Subject.End.Line, d.Subject.End.Column, d.Subject.End.Byte}}
		}
		out = append(out, p)
	}
	return out
}

// Fold merges problems that differ only in the host: one, with the names of all hosts.
func Fold(ps []Problem) []Problem {
	type key struct{ level, summary, detail, remedy, step, source string }
	at := map[key]int{}
	var out []Problem
	for _, p := range ps {
		k := key{p.Level, p.Summary, p.Detail, p.Remedy, p.Step, p.Source}
		if i, ok := at[k]; ok && p.Host != "" && p.hcl == nil {
			out[i].Host += ", " + p.Host
			continue
		}
		at[k] = len(out)
		out = append(out, p)
	}
	return out
}

// WriteProblem prints a problem with its source line.
func WriteProblem(w io.Writer, p Problem, files map[string]*hcl.File, color bool, width int) {
	head, style := "Error", Red
	if p.Warning {
		head, style = "Warning", Yellow
	}
	bar := Paint(color, style, "|")
	var b strings.Builder
	line := func(format string, a ...any) {
		s := fmt.Sprintf(format, a...)
		if s == "" {
			fmt.Fprintf(&b, "%s\n", bar)
			return
		}
		for _, l := range strings.Split(s, "\n") {
			fmt.Fprintf(&b, "%s %s\n", bar, l)
		}
	}
	line("%s: %s", Paint(color, style+";1", head), Paint(color, Bold, CleanLine(p.Summary)))
	where := ""
	if p.Host != "" {
		where = "host " + p.Host
		if strings.Contains(p.Host, ", ") {
			const most = 12
			where = "hosts " + FewNames(strings.Split(p.Host, ", "), most)
		}
		if p.Step != "" {
			where += ", step " + p.Step
		}
	}
	if p.Source != "" {
		if where != "" {
			where += ", "
		}
		where += "declared at " + p.Source
	}
	if where != "" {
		for _, l := range strings.Split(Wrap(CleanLine(where), "  ", width-2), "\n") {
			line("%s", Paint(color, Dim, l))
		}
	}
	if p.hcl != nil {
		line("  on %s line %d:", CleanLine(p.hcl.Filename), p.hcl.Start.Line)
		if src, under := snippet(files[p.hcl.Filename], p.hcl); src != "" {
			num := fmt.Sprintf("%4d: ", p.hcl.Start.Line)
			line("%s%s", num, src)
			if under != "" {
				line("%s%s", strings.Repeat(" ", len(num)), Paint(color, style, under))
			}
		}
	}
	if p.Detail != "" {
		line("")
		line("%s", Wrap(Clean(p.Detail), "", width-2))
	}
	if p.Remedy != "" {
		line("")
		line("%s", Wrap(Clean("What to do: "+p.Remedy), "", width-2))
	}
	b.WriteByte('\n')
	fmt.Fprint(w, b.String())
}

// snippet is the first line of a range and the marks below it. There are no marks if the
// line has credentials, which are not shown.
func snippet(f *hcl.File, r *hcl.Range) (src, under string) {
	if f == nil {
		return "", ""
	}
	lines := bytes.Split(f.Bytes, []byte("\n"))
	if r.Start.Line < 1 || r.Start.Line > len(lines) {
		return "", ""
	}
	line := strings.TrimRight(string(lines[r.Start.Line-1]), "\r")
	if shown := steps.ShowCredentials(line); shown != line {
		return CleanLineKeepIndent(shown), "" // the columns differ
	}
	text := []rune(line)
	start := min(max(r.Start.Column-1, 0), len(text))
	end := len(text)
	if r.End.Line == r.Start.Line {
		end = min(max(r.End.Column-1, start), len(text))
	}
	pad := []rune{}
	for _, c := range text[:start] {
		if c != '\t' {
			c = ' '
		}
		pad = append(pad, c)
	}
	return CleanLineKeepIndent(string(text)), string(pad) + strings.Repeat("^", max(end-start, 1))
}

// CleanLineKeepIndent is CleanLine for source text.
func CleanLineKeepIndent(s string) string { return strings.ReplaceAll(Clean(s), "\n", `\n`) }

// Package report writes results for other programs and for pull requests: Markdown, SARIF 2.1.0 and JUnit XML.
package report

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// Finding is one thing that is wrong, or may be.
type Finding struct {
	ID      string // what sort of finding it is, "invalid-version"
	Level   string // "error", "warning" or "note"
	Text    string // what was found
	Why     string
	Remedy  string
	Subject string // the node or object that it is about; "" = the file
	// File is relative to where the command was run, with lines and columns from 1; 0 = not known.
	File         string
	Line, Column int
}

var (
	place  = regexp.MustCompile(`^(.+):(\d+),(\d+)$`)
	notID  = regexp.MustCompile(`[^a-z0-9]+`)
	within = regexp.MustCompile(`^(.*) \(([a-z0-9-]+)\)$`) // a summary that ends with its id
)

// OfProblems are diagnostics and failures as findings.
func OfProblems(ps []ui.Problem) []Finding {
	out := make([]Finding, 0, len(ps))
	for _, p := range ps {
		f := Finding{ID: p.Summary, Level: p.Level, Text: p.Summary, Remedy: p.Remedy, Subject: p.Host}
		if m := within.FindStringSubmatch(p.Summary); m != nil {
			f.ID = m[2]
		}
		if p.Detail != "" {
			f.Text += ": " + p.Detail
		}
		if m := place.FindStringSubmatch(p.Source); m != nil {
			f.File = m[1]
			f.Line, _ = strconv.Atoi(m[2])
			f.Column, _ = strconv.Atoi(m[3])
		}
		if p.Range != nil {
			f.File, f.Line, f.Column = p.Range.File, p.Range.Start.Line, p.Range.Start.Column
		}
		out = append(out, f)
	}
	return out
}

// id is an identifier made of words.
func (f Finding) id() string { return cmp.Or(notID.ReplaceAllString(lower(f.ID), "-"), "finding") }

// message is the finding as one text.
func (f Finding) message() string {
	text := f.Text
	if f.Subject != "" {
		text = f.Subject + ": " + text
	}
	if f.Why != "" {
		text += ". Why it matters: " + f.Why
	}
	if f.Remedy != "" {
		text += ". What to do: " + f.Remedy
	}
	return text
}

func lower(s string) string { return strings.Trim(strings.ToLower(s), " .") }

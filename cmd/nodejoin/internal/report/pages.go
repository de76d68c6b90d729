package report

import (
	"bytes"
	"fmt"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/block"
	"nodejoin/plan/check"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// PlanPage is what apply would change: a section for each group of hosts.
func PlanPage(r *engine.Report, full bool) Page {
	const wide = 110
	list, closing := ui.PlanGroups(r, ui.PlanOptions{Width: wide, Full: full})
	p := Page{Title: "nodejoin plan"}
	summary, kinds, _ := strings.Cut(closing, ".\n")
	p.Summary = strings.Join(strings.Fields(summary), " ")
	for i, g := range list {
		p.Sections = append(p.Sections, Section{Title: g.Head, Text: g.Text, Open: i == 0 && len(list) == 1 &&
			len(g.Text) < 4000})
	}
	if kinds != "" {
		p.Sections = append(p.Sections, Section{Title: "Counts by action and kind", Text: kinds})
	}
	failed := OfReport(r)
	if r.Pending() == 0 && len(failed) == 0 {
		p.Summary = fmt.Sprintf("No changes: %d hosts, all as planned.", len(r.Hosts))
	}
	p.Sections = append(FindingsPage("", "", failed).Sections, p.Sections...)
	return p
}

// WithData adds what the data blocks of the plan have read.
func (p Page) WithData(list []block.Data) Page {
	if len(list) > 0 {
		var b bytes.Buffer
		_ = ui.Table(&b, 0, ui.DataRows(list)) // into memory
		p.Sections = append(p.Sections, Section{Title: "Data that was read", Text: b.String()})
	}
	return p
}

// StatusPage is the table of status.
func StatusPage(r *engine.Report, only []string) (Page, error) {
	var b bytes.Buffer
	if err := ui.WriteStatus(&b, r, only, 0); err != nil {
		return Page{}, err
	}
	text := strings.TrimRight(b.String(), "\n")
	at := strings.LastIndexByte(text, '\n') + 1
	p := FindingsPage("nodejoin status", text[at:], OfReport(r))
	p.Sections = append([]Section{{Title: "Nodes", Text: text[:at], Open: true}}, p.Sections...)
	return p, nil
}

// OfReport are the failures of a check of all hosts.
func OfReport(r *engine.Report) (out []Finding) {
	add := func(err error, subject, source string) {
		e := steps.AsError(err)
		out = append(out, OfProblems([]ui.Problem{{Level: "error", Summary: e.Summary, Detail: e.Detail, Remedy: e.Remedy,
			Host: subject, Source: source}})...)
	}
	if r.Cluster != nil {
		add(r.Cluster, "the cluster", "")
	}
	for _, h := range r.Hosts {
		if h.Err != nil {
			add(h.Err, h.Node.Name, h.Node.Connection.Source)
		}
		for _, s := range h.Steps {
			if s.Result.Err != nil {
				add(s.Result.Err, h.Node.Name+", step "+s.Spec.ID, s.Spec.Source)
			}
		}
	}
	return out
}

// OfDiagnoses are the findings of the doctor. What is waived is a note.
func OfDiagnoses(list []engine.Diagnosis) (out []Finding) {
	for _, d := range list {
		if d.Err != nil {
			out = append(out, OfReport(&engine.Report{Hosts: []engine.HostReport{{Node: d.Node, Err: d.Err}}})...)
		}
		file, line := "", 0
		if m := place.FindStringSubmatch(d.Node.Source); m != nil {
			file = m[1]
			_, _ = fmt.Sscan(m[2], &line)
		}
		for _, f := range d.Found {
			level := string(f.Severity)
			if f.Waived {
				level = "note"
			}
			out = append(out, Finding{ID: f.ID, Level: level, Text: f.Observed, Why: f.Why, Remedy: f.Remedy,
				Subject: d.Node.Name, File: file, Line: line})
		}
	}
	return out
}

// OfCheck are the findings in manifests.
func OfCheck(r check.Report) (out []Finding) {
	for _, f := range r.Findings {
		out = append(out, Finding{ID: f.ID, Level: string(f.Severity), Text: f.Field + ": " + f.Observed, Why: f.Why,
			Remedy: f.Remedy, Subject: f.Object, File: f.File, Line: f.Line, Column: f.Column})
	}
	return out
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
)

// doctorText writes a diagnosis as text.
type doctorText struct {
	*app
	compiled *plan.Compiled
	fix      bool // --fix
}

func (t *doctorText) before(r diagnosed) { t.write(r) }

func (t *doctorText) nothingToFix() {
	fmt.Fprintln(t.term.Out, "There is nothing that --fix can fix.")
}

func (t *doctorText) plan(r *engine.Report) {
	fmt.Fprintln(t.term.Out)
	t.showPlan(r, false)
}

func (t *doctorText) result(r diagnosed) error {
	switch {
	case !t.fix:
		t.write(r)
		t.suggestFix(r)
	case r.fixed != nil:
		fmt.Fprintf(t.term.Out, "\nDiagnosed again:\n\n")
		t.write(r)
	}
	return nil
}

// suggestFix says how many of the findings --fix can fix.
func (t *doctorText) suggestFix(r diagnosed) {
	n := 0
	for _, d := range r.hosts {
		for _, f := range d.Found {
			if f.Fixable() {
				n++
			}
		}
	}
	if n > 0 && len(fixes(t.compiled, r.hosts).Nodes) > 0 {
		fmt.Fprintf(t.term.Out, "--fix can fix %d of them.\n", n)
	}
}

// severities from the worst to the least, with their styles.
var severities = []struct {
	severity steps.Severity
	style    ui.Style
}{{steps.SeverityError, ui.Red}, {steps.SeverityWarning, ui.Yellow}, {steps.SeverityNote, ui.Dim}}

// write prints what was found, host by host, the worst first, and a closing line.
func (t *doctorText) write(r diagnosed) {
	hosts, waived := 0, 0
	count := map[steps.Severity]int{}
	for _, d := range r.hosts {
		if d.Err != nil {
			continue
		}
		hosts++
		t.host(d)
		for _, f := range d.Found {
			if f.Waived {
				waived++
			} else {
				count[f.Severity]++
			}
		}
	}
	line := fmt.Sprintf("Found on %d %s: ", hosts, plural(hosts, "host"))
	for i, s := range severities {
		if i > 0 {
			line += ", "
		}
		line += fmt.Sprintf("%d %s", count[s.severity], plural(count[s.severity], string(s.severity)))
	}
	if waived > 0 {
		line += fmt.Sprintf("; %d waived", waived)
	}
	fmt.Fprintln(t.term.Out, ui.Wrap(line+".", "", t.term.Width()))
}

func (t *doctorText) host(d engine.Diagnosis) {
	about := strings.TrimSpace(d.Facts.Product + " " + d.Facts.Build)
	if !d.Joined {
		about += "; not joined"
	}
	color := t.term.OutColor
	fmt.Fprintf(t.term.Out, "%s  %s\n", ui.Paint(color, ui.Bold, ui.CleanLine(d.Node.Name)),
		ui.Paint(color, ui.Dim, ui.CleanLine(about)))
	for _, s := range severities {
		for _, f := range d.Found {
			if f.Severity == s.severity {
				t.finding(f, s.style)
			}
		}
	}
	if len(d.Found) == 0 {
		fmt.Fprintln(t.term.Out, "  no findings")
	}
	fmt.Fprintln(t.term.Out)
}

func (t *doctorText) finding(f doctor.Symptom, style ui.Style) {
	word := string(f.Severity)
	if f.Waived {
		word += ", waived"
	}
	fmt.Fprintf(t.term.Out, "  %s %s\n", ui.Paint(t.term.OutColor, style, word+":"), f.ID)
	width := max(t.term.Width()-6, 24)
	for _, text := range []string{f.Observed, "why: " + f.Why, "what to do: " + f.Remedy} {
		lines := slices.Collect(strings.Lines(ui.Wrap(ui.CleanLine(text), "", width)))
		fmt.Fprintf(t.term.Out, "      %s\n", strings.Join(lines, "        "))
	}
}

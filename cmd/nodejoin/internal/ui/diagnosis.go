package ui

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
)

// severities from the worst to the least, with their styles.
var severities = []struct {
	severity steps.Severity
	style    Style
}{{steps.SeverityError, Red}, {steps.SeverityWarning, Yellow}, {steps.SeverityNote, Dim}}

// WriteDiagnosis prints what was found, host by host, the worst first, and a closing line.
func WriteDiagnosis(t *Term, list []engine.Diagnosis) {
	hosts, waived := 0, 0
	count := map[steps.Severity]int{}
	for _, d := range list {
		if d.Err != nil {
			continue
		}
		hosts++
		writeHost(t, d)
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
	fmt.Fprintln(t.Out, Wrap(line+".", "", t.Width()))
}

func writeHost(t *Term, d engine.Diagnosis) {
	about := strings.TrimSpace(d.Facts.Product + " " + d.Facts.Build)
	if !d.Joined {
		about += "; not joined"
	}
	color := t.OutColor
	fmt.Fprintf(t.Out, "%s  %s\n", Paint(color, Bold, CleanLine(d.Node.Name)),
		Paint(color, Dim, CleanLine(about)))
	for _, s := range severities {
		for _, f := range d.Found {
			if f.Severity == s.severity {
				writeFinding(t, f, s.style)
			}
		}
	}
	if len(d.Found) == 0 {
		fmt.Fprintln(t.Out, "  no findings")
	}
	fmt.Fprintln(t.Out)
}

func writeFinding(t *Term, f doctor.Symptom, style Style) {
	word := string(f.Severity)
	if f.Waived {
		word += ", waived"
	}
	fmt.Fprintf(t.Out, "  %s %s\n", Paint(t.OutColor, style, word+":"), f.ID)
	width := max(t.Width()-6, 24)
	for _, text := range []string{f.Observed, "why: " + f.Why, "what to do: " + f.Remedy} {
		lines := slices.Collect(strings.Lines(Wrap(CleanLine(text), "", width)))
		fmt.Fprintf(t.Out, "      %s\n", strings.Join(lines, "        "))
	}
}

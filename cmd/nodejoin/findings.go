package main

import (
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// findingLevel says which findings are told as problems.
type findingLevel int

const (
	findingsErrors findingLevel = iota // those that keep a machine as it is
	findingsAll                        // warnings, too
)

// findingProblems are the findings of a step as problems. What is waived and notes
// are left to the command doctor.
func findingProblems(h engine.HostReport, s engine.StepReport, level findingLevel) []ui.Problem {
	var out []ui.Problem
	for _, f := range s.Result.Change.Findings {
		if f.Waived || f.Severity == steps.SeverityNote || f.Severity == steps.SeverityWarning && level < findingsAll {
			continue
		}
		p := ui.Problem{Level: "error", Summary: steps.PreflightSummary + " (" + f.ID + ")", Remedy: f.Remedy,
			Detail: f.Seen + ". Why it matters: " + f.Why + ".", Host: h.Node.Name, Step: s.Spec.ID, Source: s.Spec.Source}
		if f.Severity == steps.SeverityWarning {
			p.Warning, p.Level, p.Summary = true, "warning", "the machine may not fit ("+f.ID+")"
		}
		if f.Unasked {
			p.Summary = "a condition of the machine could not be checked (" + f.ID + ")"
		}
		out = append(out, p)
	}
	return out
}

// findingsRefuse tells whether the error of a step is what its findings say already.
func findingsRefuse(s engine.StepReport) bool {
	return s.Result.Err != nil && s.Result.Err.Summary == steps.PreflightSummary && len(s.Result.Change.Findings) > 0
}

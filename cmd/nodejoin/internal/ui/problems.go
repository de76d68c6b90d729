package ui

import (
	"errors"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/preflight"
	"nodejoin/steps/transport"
)

// ProblemOf is a failure of a run as it is shown.
func ProblemOf(err error) Problem {
	var ce *transport.ConnectError
	if errors.As(err, &ce) {
		d := ce.Host
		switch {
		case ce.Reason == transport.ReasonController:
			d = ce.Detail
		case ce.Detail != "":
			d += ": " + ce.Detail
		}
		return Problem{Level: "error", Summary: ce.Summary, Detail: d, Remedy: ce.Remedy}
	}
	e := steps.AsError(err)
	return Problem{Level: "error", Summary: e.Summary, Detail: e.Detail, Remedy: e.Remedy}
}

// ClusterProblem is why the cluster could not be asked.
func ClusterProblem(err error) Problem {
	p := ProblemOf(err)
	if p.Summary == steps.AsError(errors.New("")).Summary {
		p.Summary = "the cluster does not answer"
	}
	return p
}

// ReportProblems are what could not be checked on the hosts, and the findings about them.
func ReportProblems(r *engine.Report, level FindingLevel) []Problem {
	var ps []Problem
	for _, h := range r.Hosts {
		if h.Err != nil {
			p := ProblemOf(h.Err)
			p.Host = h.Node.Name
			if !transport.OfController(h.Err) { // that is one problem of all hosts
				p.Source = h.Node.Connection.Source
			}
			ps = append(ps, p)
		}
		for _, s := range h.Steps {
			ps = append(ps, findingProblems(h, s, level)...)
			if s.Result.Err != nil && !findingsRefuse(s) {
				p := ProblemOf(s.Result.Err)
				p.Host, p.Step, p.Source = h.Node.Name, s.Spec.ID, s.Spec.Source
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// FindingLevel says which findings are shown as problems.
type FindingLevel int

const (
	FindingsErrors FindingLevel = iota // those that keep a machine from being changed
	FindingsAll                        // and warnings
)

// findingProblems are the findings of a step as problems. Notes and waived findings are
// shown by doctor only.
func findingProblems(h engine.HostReport, s engine.StepReport, level FindingLevel) []Problem {
	var out []Problem
	for _, f := range s.Result.Change.Findings {
		if f.Waived || f.Severity == steps.SeverityNote || f.Severity == steps.SeverityWarning && level < FindingsAll {
			continue
		}
		p := Problem{Level: "error", Summary: preflight.PreflightSummary + " (" + f.ID + ")", Remedy: f.Remedy,
			Detail: f.Observed + ". Why it matters: " + f.Why + ".", Host: h.Node.Name, Step: s.Spec.ID, Source: s.Spec.Source}
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

// findingsRefuse reports whether the error of a step only repeats its findings.
func findingsRefuse(s engine.StepReport) bool {
	return s.Result.Err != nil && s.Result.Err.Summary == preflight.PreflightSummary && len(s.Result.Change.Findings) > 0
}

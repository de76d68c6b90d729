package main

import (
	"errors"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/preflight"
	"nodejoin/steps/transport"
)

// problems prints diagnostics and failures to standard error.
func (a *app) problems(ps []ui.Problem, files map[string]*hcl.File) {
	for _, p := range ps {
		ui.WriteProblem(a.term.Err, p, files, a.term.ErrColor, min(a.term.Width(), 100))
	}
}

// problemOf is a failure of a run as it is shown.
func problemOf(err error) ui.Problem {
	var ce *transport.ConnectError
	if errors.As(err, &ce) {
		d := ce.Host
		if ce.Detail != "" {
			d += ": " + ce.Detail
		}
		return ui.Problem{Level: "error", Summary: ce.Summary, Detail: d, Remedy: ce.Remedy}
	}
	e := steps.AsError(err)
	return ui.Problem{Level: "error", Summary: e.Summary, Detail: e.Detail, Remedy: e.Remedy}
}

// clusterProblem is why the cluster could not be asked. Then nothing else was tried.
func clusterProblem(r *engine.Report) ui.Problem {
	p := problemOf(r.Cluster)
	if p.Summary == steps.AsError(errors.New("")).Summary {
		p.Summary = "the cluster does not answer"
	}
	return p
}

// reportProblems prints what could not be checked and the findings about the machines.
// It returns the exit code.
func (a *app) reportProblems(r *engine.Report, level findingLevel) int {
	if r.Cluster != nil {
		p := clusterProblem(r)
		p.Source = a.clusterAt
		a.problems([]ui.Problem{p}, nil)
		return reportCode(r)
	}
	var ps []ui.Problem
	for _, h := range r.Hosts {
		if h.Err != nil {
			p := problemOf(h.Err)
			p.Host, p.Source = h.Node.Name, h.Node.Connection.Source
			ps = append(ps, p)
		}
		for _, s := range h.Steps {
			ps = append(ps, findingProblems(h, s, level)...)
			if s.Result.Err != nil && !findingsRefuse(s) {
				p := problemOf(s.Result.Err)
				p.Host, p.Step, p.Source = h.Node.Name, s.Spec.ID, s.Spec.Source
				ps = append(ps, p)
			}
		}
	}
	a.problems(ui.Fold(ps), nil)
	return reportCode(r)
}

// findingLevel says which findings are shown as problems.
type findingLevel int

const (
	findingsErrors findingLevel = iota // those that keep a machine from being changed
	findingsAll                        // and warnings
)

// findingProblems are the findings of a step as problems. Notes and waived findings are
// shown by doctor only.
func findingProblems(h engine.HostReport, s engine.StepReport, level findingLevel) []ui.Problem {
	var out []ui.Problem
	for _, f := range s.Result.Change.Findings {
		if f.Waived || f.Severity == steps.SeverityNote || f.Severity == steps.SeverityWarning && level < findingsAll {
			continue
		}
		p := ui.Problem{Level: "error", Summary: preflight.PreflightSummary + " (" + f.ID + ")", Remedy: f.Remedy,
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

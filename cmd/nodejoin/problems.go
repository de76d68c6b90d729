package main

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// problems prints diagnostics and failures to standard error.
func (a *app) problems(ps []ui.Problem, files map[string]*hcl.File) {
	for _, p := range ps {
		if a.fails != nil && !p.Warning {
			a.fails(p.Short())
		}
		ui.WriteProblem(a.term.Err, p, files, a.term.ErrColor, min(a.term.Width(), 100))
	}
}

// reportProblems prints what could not be checked and the findings about the machines.
// It returns the exit code.
func (a *app) reportProblems(r *engine.Report, level ui.FindingLevel) int {
	if r.Cluster != nil {
		p := ui.ClusterProblem(r.Cluster)
		p.Source = a.clusterAt
		a.problems([]ui.Problem{p}, nil)
		return reportCode(r)
	}
	a.problems(ui.Fold(ui.ReportProblems(r, level)), nil)
	return reportCode(r)
}

// failed prints a failure, and returns the error that ends the command.
func (a *app) failed(err error) error {
	a.problems([]ui.Problem{ui.ProblemOf(err)}, nil)
	return exit(max(errorCode(err), exitFailed))
}

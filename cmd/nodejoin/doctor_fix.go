package main

import (
	"context"
	"fmt"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// fixOptions of doctor.
type fixOptions struct{ on, auto bool }

// fixable tells whether steps of the plan mend what was found.
func fixable(s steps.Symptom) bool { return !s.Waived && len(s.Mend)+len(s.Restart) > 0 }

// diagnose looks at all hosts once.
func (a *app) diagnose(ctx context.Context, compiled *plan.Compiled) []engine.Diagnosis {
	d := a.newDisplay()
	s := engine.New(compiled, a.options(compiled, d.Emit))
	defer s.Close()
	found := s.Diagnose(ctx)
	d.Close()
	return found
}

// sayFix tells that --fix would mend something.
func (a *app) sayFix(compiled *plan.Compiled, found []engine.Diagnosis) {
	n := 0
	for _, d := range found {
		for _, f := range d.Found {
			if fixable(f) {
				n++
			}
		}
	}
	if n > 0 && len(mendings(compiled, found).Nodes) > 0 {
		fmt.Fprintf(a.term.Out, "--fix can mend %d of them.\n", n)
	}
}

// mendings is the plan with the steps that mend what was found, and without nodes that
// have none.
func mendings(compiled *plan.Compiled, found []engine.Diagnosis) *plan.Compiled {
	out := *compiled
	out.Nodes = nil
	for _, d := range found {
		if d.Err != nil {
			continue
		}
		if n := engine.Mending(d.Node, d.Found); len(n.Steps) > 0 {
			out.Nodes = append(out.Nodes, n)
		}
	}
	return &out
}

// fix applies the steps that mend what was found, after showing them and asking. The
// summary is nil where there was nothing to do.
func (a *app) fix(ctx context.Context, args []string, compiled *plan.Compiled, found []engine.Diagnosis, o fixOptions) (*engine.Summary, int, error) {
	mend := mendings(compiled, found)
	if len(mend.Nodes) == 0 {
		if !a.json {
			fmt.Fprintln(a.term.Out, "There is nothing that --fix can mend.")
		}
		return nil, exitOK, nil
	}
	a.hold("doctor --fix")
	var current ui.Display = a.newDisplay() // that of the look ends before what will be done is shown
	opt := a.options(mend, func(e event.Event) { current.Emit(e) })
	opt.Resume = nil // what finishes after a boot is a plan, not some of its steps
	s := engine.New(mend, opt)
	defer s.Close()
	report := s.Check(ctx)
	current.Close()
	if ctx.Err() != nil {
		fmt.Fprintln(a.term.Err, "Nothing was changed.")
		return nil, exitInterrupted, exitError(exitInterrupted)
	}
	if !a.json {
		fmt.Fprintln(a.term.Out)
		a.showPlan(report, false)
	}
	code := a.reportProblems(report, findingsErrors)
	if report.Pending() == 0 || !someReady(report) {
		if code != exitOK {
			return nil, code, exitError(code)
		}
		return nil, exitOK, nil
	}
	if err := a.approve(ctx, mend, o.auto, "Mend this?", "look at what doctor finds, then run doctor with --fix --auto-approve"); err != nil {
		return nil, exitFailed, err
	}
	a.beginRun(args, mend)
	current = a.newDisplay()
	sum := s.Apply(ctx)
	current.Close()
	code = worst(summaryCode(sum), code)
	a.endRun(code, appliedHosts(sum))
	a.showSummary(sum, report)
	return sum, code, nil
}

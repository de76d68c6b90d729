package main

import (
	"context"
	"fmt"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
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
		fmt.Fprintf(a.term.Out, "--fix can fix %d of them.\n", n)
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

// fixing is one run of doctor --fix, after the first diagnosis.
type fixing struct {
	*app
	auto     bool     // --auto-approve
	args     []string // of doctor
	compiled *plan.Compiled
	progress progress
	session  *engine.Session
}

// fix applies the steps that fix what was found, after showing them and asking. The
// summary is nil if there was nothing to do.
func (a *app) fix(ctx context.Context, args []string, compiled *plan.Compiled, found []engine.Diagnosis, o fixOptions) (*engine.Summary, int, error) {
	x := &fixing{app: a, auto: o.auto, args: args, compiled: mendings(compiled, found)}
	if len(x.compiled.Nodes) == 0 {
		if !a.json {
			fmt.Fprintln(a.term.Out, "There is nothing that --fix can fix.")
		}
		return nil, exitOK, nil
	}
	x.open()
	defer x.session.Close()
	report, err := x.check(ctx)
	if err != nil {
		return nil, exitInterrupted, err
	}
	code := a.reportProblems(report, findingsErrors)
	if report.Pending() == 0 || !someReady(report) {
		return nil, code, exit(code)
	}
	if err := x.confirm(ctx); err != nil {
		return nil, exitFailed, err
	}
	result := x.change(ctx, report)
	x.finish(result)
	return result.summary, result.code(), nil
}

func (x *fixing) open() {
	x.progress = progress{app: x.app, view: noEvents{}}
	x.hold("doctor --fix")
	o := x.options(x.compiled, x.progress.emit)
	o.Resume = nil // only a whole plan is finished after a reboot
	x.session = engine.New(x.compiled, o)
}

// check compares the steps with their hosts and shows what would change.
func (x *fixing) check(ctx context.Context) (*engine.Report, error) {
	x.progress.begin()
	report := x.session.Check(ctx)
	x.progress.end()
	if ctx.Err() != nil {
		return nil, x.nothingChanged(exitInterrupted)
	}
	if !x.json {
		fmt.Fprintln(x.term.Out)
		x.showPlan(report, false)
	}
	return report, nil
}

func (x *fixing) confirm(ctx context.Context) error {
	if x.auto {
		return nil
	}
	return x.approve(ctx, x.compiled, "Fix this?", "review what doctor finds, then run doctor with --fix --auto-approve")
}

func (x *fixing) change(ctx context.Context, report *engine.Report) applied {
	x.beginRun(x.args, x.compiled)
	x.progress.begin()
	result := applied{report: report, summary: x.session.Apply(ctx)}
	x.progress.end()
	x.endRun(result.code(), appliedHosts(result.summary))
	return result
}

func (x *fixing) finish(result applied) {
	x.applyProblems(result)
	if !x.json {
		(&applyText{app: x.app}).result(result)
	}
}

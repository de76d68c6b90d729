package main

import (
	"context"

	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// fixing is what doctor --fix does after the first diagnosis.
type fixing struct {
	*app
	auto     bool     // --auto-approve
	args     []string // of doctor
	compiled *plan.Compiled
	view     doctorView
	progress progress
	session  *engine.Session
}

// fixes is the plan with only the steps that fix what was found, and only the nodes
// that have such steps.
func fixes(compiled *plan.Compiled, found []engine.Diagnosis) *plan.Compiled {
	out := *compiled
	out.Nodes = nil
	for _, d := range found {
		if d.Err != nil {
			continue
		}
		if n := engine.Fixes(d.Node, d.Found); len(n.Steps) > 0 {
			out.Nodes = append(out.Nodes, n)
		}
	}
	return &out
}

// run applies the steps, after showing them and asking for approval. The result is nil
// if there was nothing to do.
func (x *fixing) run(ctx context.Context) (*applied, error) {
	if len(x.compiled.Nodes) == 0 {
		x.view.nothingToFix()
		return nil, nil
	}
	x.open()
	defer x.session.Close()
	report, err := x.check(ctx)
	if err != nil {
		return nil, err
	}
	if report.Pending() == 0 || !someReady(report) {
		return nil, exit(reportCode(report))
	}
	if err := x.confirm(ctx); err != nil {
		return nil, err
	}
	result := x.change(ctx, report)
	x.finish(result)
	return &result, nil
}

func (x *fixing) open() {
	x.progress = progress{app: x.app, view: noEvents{}}
	x.holder = holder.New("doctor --fix")
	o := x.options(x.compiled, x.progress.emit)
	o.Resume = nil // only a whole plan is finished after a reboot
	x.session = engine.New(x.compiled, o)
}

// check compares the steps with their hosts and shows what would change.
func (x *fixing) check(ctx context.Context) (*engine.Report, error) {
	x.progress.begin(ui.OnHosts("Checking", x.compiled))
	report := x.session.Check(ctx)
	x.progress.end()
	if ctx.Err() != nil {
		return nil, x.nothingChanged(exitInterrupted)
	}
	x.view.plan(report)
	x.reportProblems(report, ui.FindingsErrors)
	return report, nil
}

func (x *fixing) confirm(ctx context.Context) error {
	if x.auto {
		return nil
	}
	return x.approve(ctx, x.compiled, "Fix this?", "review what doctor finds, then run doctor with --fix --auto-approve")
}

func (x *fixing) change(ctx context.Context, report *engine.Report) applied {
	usual := x.usual(x.args)
	x.beginRun(x.args, x.compiled)
	x.progress.begin(ui.Applying(report, x.parallel.first(), usual))
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

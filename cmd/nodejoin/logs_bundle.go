package main

import (
	"context"
	"fmt"
	"time"

	"nodejoin/cmd/nodejoin/internal/bundle"
	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// bundleRuns is how many of the last runs a bundle has.
const bundleRuns = 3

// bugReport is the bundle of one run of logs.
type bugReport struct {
	*bundle.Bundle
}

// newBugReport starts with what this computer has: the plan, versions, the last runs.
func (a *app) newBugReport(ctx context.Context, args []string, c *plan.Compiled, now time.Time) (*bugReport, error) {
	path, opt, err := a.planAt(ctx, args)
	if err != nil {
		return nil, err
	}
	p, diags := plan.Load(path, opt)
	if diags.HasErrors() {
		return nil, fmt.Errorf("the plan was changed while it was read: %w", diags)
	}
	b := &bugReport{bundle.New(bundle.Secrets(p, opt.Vars, c, lookupEnv))}
	b.Add("about.txt", bundle.About(version, c, now))
	for _, t := range c.Texts() {
		b.Add("plan/"+t.Name, string(t.Content))
	}
	b.runs(a.planRuns(args))
	return b, nil
}

// runs adds the last runs of the plan.
func (b *bugReport) runs(runs []history.Run, err error) {
	if err != nil {
		b.Missing("history", err.Error())
		return
	}
	for _, r := range runs[max(0, len(runs)-bundleRuns):] {
		b.JSON("history/"+r.Head.Holder.Run+".json", jsonout.OfRun(r, runResult(r), true))
	}
}

// planRuns are the recorded runs of the plan, oldest first.
func (a *app) planRuns(args []string) ([]history.Run, error) {
	path, err := planPath(args)
	if err != nil {
		return nil, err
	}
	root, err := history.Root()
	if err != nil {
		return nil, err
	}
	return history.Runs(root, path, a.environment)
}

func (b *bugReport) host(c *plan.Compiled, g engine.Collected) {
	dir := g.Node.Name + "/"
	if g.Err != nil {
		p := ui.ProblemOf(g.Err)
		b.Missing(dir+"the machine", p.Summary+": "+p.Detail)
	}
	if g.Check.Err != nil {
		p := ui.ProblemOf(g.Check.Err)
		b.Missing(dir+"the check of all steps", p.Summary+": "+p.Detail)
	}
	b.JSON(dir+"check.json", jsonout.OfPlan(c, &engine.Report{Hosts: []engine.HostReport{g.Check}}))
	for _, p := range g.Parts {
		b.Part(dir, p)
	}
}

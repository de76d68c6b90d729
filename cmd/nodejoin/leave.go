package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// leaveCommand is one run of leave.
type leaveCommand struct {
	*app
	auto    bool                // --auto-approve
	all     bool                // --all
	options engine.LeaveOptions // flags

	args     []string
	compiled *plan.Compiled
	view     leaveView
	progress progress
	session  *engine.Session
	changed  map[string][]string // node -> what was undone, in order
}

// leaveView writes a leave to standard output, as text or as JSON. Failures are
// written to standard error in both forms, by the command.
type leaveView interface {
	eventView
	plan(left)
	result(left)
}

func newLeave(a *app) *cobra.Command {
	x := &leaveCommand{app: a, changed: map[string][]string{}}
	c := &cobra.Command{
		SuggestFor: []string{"destroy", "remove", "reset", "uninstall"},
		Use:        "leave [PLAN] {--target NODE | --all}",
		Short:      "Remove nodes from the cluster and restore their hosts",
		Long: `Shows what would be done, asks for approval, and does it: the Node is cordoned and
drained; the services, HNS networks, files, firewall rules, variables and registry values
that nodejoin made are deleted, and what it changed is restored; the Node object is
deleted; nodejoin's own folder and agent go last. In the end everything is checked again.

Only what nodejoin's record on the host lists is touched. If a leave is interrupted, the
next one finishes it. An apply joins the node again, from any state.

With --without-cluster the API server is not asked: nothing is drained, and the Node
object stays in the cluster.`,
		Example: `  nodejoin leave plans/prod --target win-1
  nodejoin leave plans/test --all --skip win-2`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	f := c.Flags()
	f.BoolVar(&x.auto, "auto-approve", false, "do not ask for approval")
	f.BoolVar(&x.all, "all", false, "remove all nodes of the plan, but those of --skip")
	f.BoolVar(&x.options.WithoutCluster, "without-cluster", false, "do not use the cluster; the Node object stays there")
	drainFlags(c, &x.options.Drain)
	return c
}

func (x *leaveCommand) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	if err := x.load(c, args); err != nil {
		return err
	}
	x.open()
	defer x.session.Close()
	report, err := x.check(ctx)
	if err != nil {
		return err
	}
	result := left{report: report, options: x.options}
	x.leaveProblems(result)
	x.view.plan(result)
	if result.pending() {
		if err := x.confirm(ctx); err != nil {
			return err
		}
		result.summary = x.change(ctx, result)
		x.leaveFailures(result)
	}
	x.view.result(result)
	return exit(result.code())
}

func (x *leaveCommand) load(c *cobra.Command, args []string) (err error) {
	switch {
	case x.all && len(x.targets) > 0:
		return usageError{c, errors.New("--all is all nodes of the plan; leave out --all or --target")}
	case !x.all && len(x.targets) == 0:
		return usageError{c, errors.New("leave needs --target or --all: name the nodes to remove, or remove all")}
	}
	x.args = args
	if x.compiled, err = x.app.load(c.Context(), args); err != nil {
		return err
	}
	for _, t := range slices.Concat(x.targets, x.skips) {
		isNode := slices.ContainsFunc(x.compiled.Nodes, func(n plan.Node) bool { return n.Name == t || n.Address == t })
		if slices.Contains(x.targets, t) && !isNode {
			return usageError{c, fmt.Errorf("--target %s: only a whole node can leave", t)}
		}
	}
	return nil
}

func (x *leaveCommand) open() {
	x.view = &leaveText{app: x.app}
	if x.json {
		x.view = leaveJSON{ui.NewJSON(x.term.Out, version)}
	}
	x.progress = progress{app: x.app, view: x.view}
	x.holder = holder.New("leave")
	x.session = engine.New(x.compiled, x.app.options(x.compiled, func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Result == "changed" {
			x.changed[d.Host] = append(x.changed[d.Host], d.Step)
		}
		x.progress.emit(e)
	}))
}

func (x *leaveCommand) check(ctx context.Context) (*engine.LeaveReport, error) {
	x.progress.begin(ui.OnHosts("Checking", x.compiled))
	report := x.session.CheckLeave(ctx, x.options)
	x.progress.end()
	if ctx.Err() != nil {
		if x.json {
			x.view.result(left{report: report, options: x.options, interrupted: true})
		}
		return nil, x.nothingChanged(exitInterrupted)
	}
	return report, nil
}

// leaveProblems writes why nodes cannot leave to standard error.
func (a *app) leaveProblems(r left) {
	if err := r.report.Cluster; err != nil {
		p := ui.ProblemOf(err)
		p.Source = a.clusterAt
		p.Remedy = strings.TrimPrefix(p.Remedy+"; or use --without-cluster, which leaves the Node object in the cluster",
			"; ")
		a.problems([]ui.Problem{p}, nil)
		return
	}
	var ps []ui.Problem
	for _, h := range r.report.Hosts {
		if h.Err != nil {
			p := ui.ProblemOf(h.Err)
			p.Host, p.Source = h.Node.Name, h.Node.Connection.Source
			ps = append(ps, p)
		}
	}
	a.problems(ui.Fold(ps), nil)
}

func (x *leaveCommand) confirm(ctx context.Context) error {
	if x.auto {
		return nil
	}
	question := "Remove these nodes?"
	if x.all {
		question = fmt.Sprintf("Remove %d %s?", len(x.compiled.Nodes), plural(len(x.compiled.Nodes), "node"))
	}
	return x.approve(ctx, x.compiled, question,
		"review in a terminal what leave would do, then run leave with --auto-approve")
}

func (x *leaveCommand) change(ctx context.Context, r left) *engine.LeaveSummary {
	x.beginRun(x.args, x.compiled)
	x.progress.begin(ui.OnHosts("Leaving", x.compiled))
	r.summary = x.session.Leave(ctx, r.report, x.options)
	x.progress.end()
	x.endRun(r.code(), x.historyHosts(r.summary))
	return r.summary
}

// historyHosts is the result for the history. What was changed is taken from the events:
// the summary of a leave that was stopped may lack it.
func (x *leaveCommand) historyHosts(sum *engine.LeaveSummary) []history.Host {
	out := []history.Host{}
	for _, h := range sum.Hosts {
		changed := append([]string{}, x.changed[h.Node]...)
		out = append(out, history.Host{Node: h.Node, Changed: changed, Failed: h.Failed, Error: errorSummary(h.Err)})
	}
	return out
}

// leaveFailures writes what failed while nodes left to standard error.
func (a *app) leaveFailures(r left) {
	var ps []ui.Problem
	for i, h := range r.summary.Hosts {
		if h.Err != nil && r.report.Hosts[i].Err == nil {
			p := ui.ProblemOf(h.Err)
			p.Host, p.Step = h.Node, h.Failed
			ps = append(ps, p)
		}
	}
	if len(ps) > 0 {
		fmt.Fprintln(a.term.Err)
		a.problems(ui.Fold(ps), nil)
	}
}

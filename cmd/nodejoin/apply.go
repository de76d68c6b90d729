package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/saved"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// applyCommand is one run of apply.
type applyCommand struct {
	*app
	auto, full, prune, removal, rejoin bool // flags

	args     []string    // of the plan; a saved plan's path is replaced by that of its plan
	saved    *saved.Plan // nil: the argument is a plan
	compiled *plan.Compiled
	view     applyView
	progress progress
	times    *report.Recorder // for --report
	session  *engine.Session
}

// applyView writes an apply to standard output, as text or as JSON. Failures are
// written to standard error in both forms, by the command.
type applyView interface {
	eventView
	plan(*engine.Report)
	result(applied)
}

func newApply(a *app) *cobra.Command {
	x := &applyCommand{app: a}
	c := &cobra.Command{
		Use:   "apply [PLAN | FILE]",
		Short: "Change the hosts to match the plan",
		Long: `Compares the plan with its hosts, shows what would change, asks for approval, and makes
the changes: every step is checked, applied, and checked again. If an apply is interrupted,
the next one finishes it.

Without a terminal, --auto-approve is required, unless every host is a sandbox or there
are no changes.

If the plan allows it, the machine that nodejoin itself runs on is rebooted last; a
service finishes the plan after the reboot.

FILE is a plan saved by 'nodejoin plan --out FILE': exactly the changes shown then are
applied, without asking. It is refused if the plan or its hosts have changed since.`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	a.junitFlag(c)
	a.reportFlag(c)
	a.metricsFlag(c)
	a.changeFlags(c)
	f := c.Flags()
	f.BoolVar(&x.auto, "auto-approve", false, "do not ask for approval")
	f.BoolVar(&x.removal, "approve-removal", false,
		"do not ask before more than half of what was made on a node is removed")
	f.BoolVar(&x.rejoin, "rejoin", false, "do not ask before a machine with an unfinished leave joins again")
	f.BoolVar(&x.prune, "prune", false, "also remove nodes from the cluster that this plan joined and no longer has")
	f.BoolVar(&x.full, "full", false, "show each host by itself, the contents of new files and the steps without changes")
	return c
}

func (x *applyCommand) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	if err := x.load(c, args); err != nil {
		return err
	}
	x.open()
	defer x.session.Close()
	found, err := x.check(ctx)
	if err != nil {
		return err
	}
	result := applied{report: found}
	if x.pending(found) {
		if err := x.confirm(ctx, found); err != nil {
			return err
		}
		result = x.change(ctx, found)
	}
	return x.finish(ctx, result)
}

// load reads the plan, or the saved plan and the plan that it was made from.
func (x *applyCommand) load(c *cobra.Command, args []string) (err error) {
	if x.saved, x.args, err = x.openSaved(c, args); err != nil {
		return err
	}
	if x.prune && (x.saved != nil || len(x.targets)+len(x.skips)+x.shard.Count > 0) {
		return usageError{c, errors.New("--prune needs the whole plan: do not use it with a saved plan, --target, --skip " +
			"or --shard")}
	}
	if x.compiled, err = x.app.load(c.Context(), x.args); err != nil {
		return err
	}
	return x.sameInputs(c.Context(), x.saved, x.args, x.compiled)
}

// open starts the session and the view.
func (x *applyCommand) open() {
	x.view = &applyText{app: x.app, full: x.full, planAt: planArg(x.args)}
	if x.json {
		x.view = &applyJSON{ui.NewJSON(x.term.Out, version), x.environment}
	}
	x.progress = progress{app: x.app, view: x.view}
	command := "apply"
	if x.resumed != nil {
		command = "resume"
	}
	x.holder = holder.New(command)
	x.times = &report.Recorder{}
	x.session = engine.New(x.compiled, x.options(x.compiled, func(e event.Event) {
		x.times.Emit(e)
		x.progress.emit(e)
	}))
}

// check compares the plan with its hosts and shows what would change.
func (x *applyCommand) check(ctx context.Context) (*engine.Report, error) {
	x.progress.begin(ui.OnHosts("Checking", x.compiled))
	found := x.session.Check(ctx)
	x.progress.end()
	if ctx.Err() != nil {
		if x.json {
			x.view.result(applied{report: found, interrupted: true})
		}
		return nil, x.nothingChanged(exitInterrupted)
	}
	x.reportProblems(found, ui.FindingsAll)
	if err := x.sameHosts(ctx, x.saved, x.args, x.compiled, found); err != nil {
		return nil, err
	}
	if found.Cluster == nil && found.Reachable() {
		x.view.plan(found)
	}
	return found, nil
}

// pending reports whether there is something to change on a host that could be
// checked, or a node to prune.
func (x *applyCommand) pending(r *engine.Report) bool {
	return r.Pending() > 0 && someReady(r) || x.pruning(r)
}

// pruning reports whether there are nodes to remove and the cluster can be asked to.
func (x *applyCommand) pruning(r *engine.Report) bool {
	return x.prune && len(r.Former) > 0 && r.Cluster == nil
}

// confirm asks for approval, except for a saved plan, which was approved as it is.
func (x *applyCommand) confirm(ctx context.Context, r *engine.Report) error {
	if err := errors.Join(x.confirmRejoin(ctx, r), x.confirmRemoval(ctx, r)); err != nil || x.auto || x.saved != nil {
		return err
	}
	question := "Apply these changes?"
	if x.pruning(r) {
		n := len(r.Former)
		question = fmt.Sprintf("Apply these changes, and remove %d %s from the cluster?", n, plural(n, "node"))
	}
	return x.approve(ctx, x.compiled, question,
		"review the changes with 'nodejoin plan', then run apply with --auto-approve")
}

// confirmRejoin asks before an unfinished leave is followed by a join of the same machine.
func (x *applyCommand) confirmRejoin(ctx context.Context, r *engine.Report) error {
	if x.rejoin || x.resumed != nil {
		return nil
	}
	for _, h := range r.Hosts {
		if h.Err != nil || !h.Last.IsLeave() {
			continue
		}
		name := ui.CleanLine(h.Node.Name)
		if !x.term.InTTY || x.json {
			return fmt.Errorf("a leave of %s is unfinished: finish it with 'nodejoin leave --target %s', "+
				"or join the machine again with 'nodejoin apply --rejoin'", name, name)
		}
		question := fmt.Sprintf("A leave of %s is unfinished ('nodejoin leave' continues it). "+
			"Join it again?", name)
		if err := x.approve(ctx, x.compiled, question, ""); err != nil {
			return err
		}
	}
	return nil
}

// confirmRemoval asks before most of what was made on a node is removed: a plan that lost its
// blocks by mistake looks the same as one that dropped them.
func (x *applyCommand) confirmRemoval(ctx context.Context, r *engine.Report) error {
	if x.removal || x.resumed != nil {
		return nil
	}
	for _, h := range r.Hosts {
		if h.Err != nil || !h.Removals.Most() {
			continue
		}
		question := fmt.Sprintf("The plan no longer has %d of the %d steps that made something on %s. Remove all of that?",
			h.Removals.Steps, h.Removals.Of, ui.CleanLine(h.Node.Name))
		if !x.term.InTTY || x.json {
			return fmt.Errorf("the plan no longer has %d of the %d steps that made something on %s: review the removal "+
				"with 'nodejoin plan', then run apply with --approve-removal", h.Removals.Steps, h.Removals.Of, h.Node.Name)
		}
		if err := x.approve(ctx, x.compiled, question, ""); err != nil {
			return err
		}
	}
	return nil
}

// change applies the plan, and prunes if all of it succeeded.
func (x *applyCommand) change(ctx context.Context, r *engine.Report) applied {
	usual := x.usual(x.args)
	x.beginRun(x.args, x.compiled)
	x.progress.begin(ui.Applying(r, x.parallel.first(), usual))
	result := applied{report: r, summary: x.session.Apply(ctx)}
	prunes := x.pruning(r) && result.code() == exitOK
	if prunes {
		result.pruned = x.session.Prune(ctx, r)
	}
	x.progress.end()
	if x.pruning(r) && !prunes {
		fmt.Fprintln(x.term.Err, "No node was removed from the cluster, because the apply did not finish.")
	}
	x.endRun(result.code(), appliedHosts(result.summary))
	return result
}

// finish reports the result, and then reboots this machine where the plan wants that.
func (x *applyCommand) finish(ctx context.Context, result applied) error {
	if result.summary == nil {
		x.view.result(result)
		return exit(worst(x.writeFiles(result), x.trySSH(ctx)))
	}
	x.applyProblems(result)
	x.view.result(result)
	code := worst(x.writeFiles(result), x.trySSH(ctx))
	// This must be last: the process may end at any moment after it.
	if err := x.session.RebootSelf(ctx); err != nil {
		x.problems([]ui.Problem{ui.ProblemOf(err)}, nil)
		code = worst(exitFailed, code)
	}
	return exit(code)
}

// trySSH logs in at the SSH servers that the plan sets up. It returns the exit code.
func (x *applyCommand) trySSH(ctx context.Context) int {
	code := exitOK
	for _, err := range connect.TrySSH(ctx, x.compiled.Nodes, x.session.SSHServer, x.term.Err) {
		x.problems([]ui.Problem{ui.ProblemOf(err)}, nil)
		code = worst(code, errorCode(err))
	}
	return code
}

// writeFiles writes the files of --junit, --metrics and --report. It returns the exit code, which is another where
// that failed.
func (x *applyCommand) writeFiles(r applied) int {
	page := x.page("apply", x.args)
	page.Data = jsonout.OfApply(x.environment, r.report, r.summary, r.pruned, r.code())
	var hosts []ui.HostResult
	var failures []ui.Problem
	if page.Bad = r.code() != exitOK; r.summary != nil {
		page.Result, page.Times = tallyOf(r.summary).text(false)+".", x.times
		hosts, failures = hostResults(r.summary), r.failures()
	}
	return x.written(r.code(), errors.Join(
		report.WriteJUnit(x.junit, x.titled("nodejoin apply"), report.AppliedCases(r.report, r.summary)),
		x.writeMetrics("apply", x.args, r.code(), r.report, r.summary),
		report.WriteHTML(x.reportFile, page.OfApply(r.report, hosts, failures, x.full))))
}

// someReady reports whether at least one host was checked without an error; the
// others are not changed.
func someReady(r *engine.Report) bool {
	for _, h := range r.Hosts {
		if r.Cluster == nil && !ui.Unchecked(h) {
			return true
		}
	}
	return false
}

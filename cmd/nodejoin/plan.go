package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/kube"
)

// compareCommand is one run of plan or of status: both compare a plan with its hosts
// and change nothing.
type compareCommand struct {
	*app
	desired  bool     // its JSON has what the plan says
	detailed bool     // --detailed-exitcode
	full     bool     // --full
	only     []string // --only
	out      string   // --out
	findings ui.FindingLevel
	text     func(*engine.Report) error // shows the report as text
	page     func(*engine.Report) (report.Page, error)
}

func newPlan(a *app) *cobra.Command {
	x := &compareCommand{app: a, desired: true, findings: ui.FindingsAll}
	x.page = func(r *engine.Report) (report.Page, error) { return report.PlanPage(r, x.full).WithData(a.data), nil }
	x.text = func(r *engine.Report) error {
		a.showPlan(r, x.full)
		if reportCode(r) == exitOK {
			a.showUnverified()
		}
		return nil
	}
	c := &cobra.Command{
		Use:   "plan [PLAN]",
		Short: "Show what apply would change",
		Long: `Compares the plan with its hosts and shows what apply would change. Nothing is
changed anywhere. With --detailed-exitcode the exit code is 2 if changes are pending.`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	a.changeFlags(c)
	f := c.Flags()
	a.formatFlag(c, "markdown")
	a.reportFlag(c)
	a.metricsFlag(c)
	f.BoolVar(&x.detailed, "detailed-exitcode", false, "exit with 2 if changes are pending, with 0 if there are none")
	f.BoolVar(&x.full, "full", false, "show each host by itself, the contents of new files and the steps without changes")
	f.StringVar(&x.out, "out", "", "save the plan in `file`, for 'nodejoin apply FILE'")
	return c
}

func (x *compareCommand) run(c *cobra.Command, args []string) error {
	compiled, err := x.load(c.Context(), args)
	if err != nil {
		return err
	}
	found := x.checkHosts(c.Context(), compiled)
	if err := x.show(compiled, found); err != nil {
		return err
	}
	page := x.app.page(c.Name(), args)
	page.ChangesFirst = c.Name() == "plan"
	if len(compiled.Data) > 0 {
		page.Tables = append(page.Tables, report.TableOf("Data", ui.DataRows(compiled.Data)))
	}
	page.Data = jsonout.OfPlan(compiled, ui.OnlyStates(found, x.only))
	code := reportCode(found)
	if code == exitOK && x.detailed && found.Pending() > 0 {
		code = exitPending
	}
	lost := x.written(exitOK, errors.Join(report.WriteHTML(x.reportFile, page.OfCompare(found, x.only, x.full)),
		x.writeMetrics(c.Name(), args, code, found, nil)))
	if lost != exitOK {
		return exitError(lost)
	}
	if code := x.reportProblems(found, x.findings); code != exitOK {
		return exitError(code)
	}
	if x.out != "" {
		if err := x.savePlan(c.Context(), x.out, args, compiled, found); err != nil {
			return err
		}
	}
	if x.detailed && found.Pending() > 0 {
		return exitError(exitPending)
	}
	return nil
}

func (x *compareCommand) show(compiled *plan.Compiled, r *engine.Report) error {
	if x.json {
		out := jsonout.OfPlan(compiled, ui.OnlyStates(r, x.only))
		if !x.desired {
			return x.printJSON(out)
		}
		out, err := out.WithDesired(compiled)
		if err != nil {
			return err
		}
		return x.printJSON(out)
	}
	if x.format == "markdown" {
		page, err := x.page(r)
		if err != nil {
			return err
		}
		page.Title = x.titled(page.Title)
		return report.Markdown(x.term.Out, page)
	}
	return x.text(r)
}

// showPlan writes what an apply would change as text.
func (a *app) showPlan(r *engine.Report, full bool) {
	ui.WriteData(a.term.Out, a.data, a.term.OutLimit())
	if r.Pending() > 0 || full || reportCode(r) == exitOK { // without changes: what stays, and why
		ui.WritePlan(a.term.Out, r, ui.PlanOptions{Color: a.term.OutColor, Width: a.term.OutWidth(),
			Limit: a.term.OutLimit(), Full: full})
	}
	if r.Pending() == 0 && reportCode(r) == exitOK {
		n := 0
		for _, h := range r.Hosts {
			n += len(h.Steps)
		}
		a.term.Say("No changes: %d %s, %d %s, all as planned.", len(r.Hosts), plural(len(r.Hosts), "host"), n,
			plural(n, "step"))
	}
	if slices.ContainsFunc(r.Hosts, func(h engine.HostReport) bool { return h.Node.Partial }) {
		a.term.Say("Only some steps were checked, so nothing is removed that the plan no longer has.")
	}
	a.showFormer(r)
}

// showUnverified names the artifacts for whose locked digests nobody vouches.
func (a *app) showUnverified() {
	if len(a.unverified) > 0 {
		a.term.Say("Nobody vouches for the locked digests of %s; a verify block refuses such artifacts.",
			ui.CleanLine(strings.Join(a.unverified, ", ")))
	}
}

// showFormer names the Nodes that were joined by this plan and are no longer in it.
func (a *app) showFormer(r *engine.Report) {
	for _, n := range r.Former {
		a.term.Say("The Node %s (%s) was joined by this plan and is no longer in it. 'nodejoin apply --prune' drains it "+
			"and removes it from the cluster. To clean up its machine, run 'nodejoin leave' with a plan that still has it.",
			ui.CleanLine(n.Name), ui.CleanLine(formerState(n)))
	}
}

func formerState(n kube.Node) string {
	state := "not Ready"
	if n.Ready {
		state = "Ready"
	}
	if n.InternalIP != "" {
		state += ", " + n.InternalIP
	}
	return state
}

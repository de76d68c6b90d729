package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/flagvalue"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

func newStatus(a *app) *cobra.Command {
	x := &compareCommand{app: a, findings: ui.FindingsErrors}
	x.page = func(r *engine.Report) (report.Page, error) { return report.StatusPage(r, x.only) }
	x.text = func(r *engine.Report) error {
		if r.Cluster != nil {
			return nil //nolint:nilerr // nothing was checked, and reportProblems says why
		}
		return ui.WriteStatus(a.term.Out, r, x.only, a.term.OutLimit())
	}
	c := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "Show whether the nodes still match the plan",
		Long: `Compares every host and the cluster with the plan, changes nothing, and prints one line
per node: its state, what differs, and when and how the last run that changed it ended. If
a file differs, the time at which it was written is shown. A narrow terminal shows fewer
columns. The last line counts the nodes by state. The states are

  in sync      as planned
  drifted      changed since the last run
  unfinished   the last apply or leave failed or stopped
  not joined   nodejoin has nothing on the machine
  foreign      joined by this plan, no longer in it

The same command again continues an unfinished run. A machine that has left is not joined.
With --detailed-exitcode the exit code is 2 if a node is drifted, unfinished or not joined.`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().BoolVar(&x.detailed, "detailed-exitcode", false, "exit with 2 if a node is not in sync, else with 0")
	a.formatFlag(c, "markdown")
	a.reportFlag(c)
	a.metricsFlag(c)
	c.Flags().Var(flagvalue.SomeOf{Value: &x.only, Values: ui.States, What: "state"}, "only",
		"show only nodes in these `states`: "+strings.Join(ui.States, ", "))
	return c
}

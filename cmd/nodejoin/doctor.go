package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
	"nodejoin/steps/selftest"
)

// doctorCommand is one run of doctor.
type doctorCommand struct {
	*app
	list, fix, auto bool // flags

	args     []string
	compiled *plan.Compiled
	view     doctorView

	selfTest selfTesting
}

func newDoctor(a *app) *cobra.Command {
	x := &doctorCommand{app: a, selfTest: selfTesting{app: a}}
	c := &cobra.Command{
		Use:   "doctor [PLAN]",
		Short: "Diagnose the hosts of a plan, and fix what can be fixed",
		Long: `Runs the checks of the preflight on every host of a plan. On a host that has joined it
also looks for the known problems of Windows nodes: services, pod network, addresses left
by an earlier join, pause image, DNS, proxy. Prints everything it finds, including notes
and waived findings, and what could not be checked. Nothing is changed anywhere.

With --fix it then shows which steps of the plan fix the findings, asks for approval,
applies only those steps, and diagnoses again. What nodejoin did not make is not changed.

The exit code is 0 if no error was found, 1 if one was, and 4 if a host does not answer;
with --fix it is that of the second diagnosis.

With --self-test it makes the calls that nodejoin makes on a machine, on things of its own,
removes them, compares the machine with how it was before, and writes what it saw as one
JSON file. Without PLAN it tests this machine. Areas: ` + strings.Join(selftest.Areas(), ", ") + `.`,
		Example: `  nodejoin doctor plans/prod
  nodejoin doctor plans/prod --fix --target win-1
  nodejoin doctor --self-test --yes-change-this-machine`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	f := c.Flags()
	a.formatFlag(c, "markdown", "sarif")
	a.reportFlag(c)
	f.BoolVar(&x.list, "list", false, "list all possible findings; no host is asked")
	f.BoolVar(&x.fix, "fix", false, "fix what steps of the plan can fix, after asking")
	f.BoolVar(&x.auto, "auto-approve", false, "with --fix: do not ask for approval")
	drainFlags(c, &a.drain)
	x.selfTest.flags(c)
	return c
}

func (x *doctorCommand) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	if x.selfTest.areas != "" {
		return x.selfTest.run(c, args)
	}
	if x.list {
		if len(args) > 0 || x.json {
			return usageError{c, errors.New("--list takes no plan and no --json")}
		}
		return x.listFindings()
	}
	if err := x.load(c, args); err != nil {
		return err
	}
	result, err := x.diagnose(ctx)
	if err != nil {
		return err
	}
	if x.fix {
		if result, err = x.fixFindings(ctx, result); err != nil {
			return err
		}
	}
	shown, err := x.showFindings("nodejoin doctor", "", report.OfDiagnoses(result.hosts))
	if !shown {
		err = x.view.result(result)
	}
	if err != nil {
		return err
	}
	x.unreached(result)
	page := x.page("doctor", args)
	page.Data = result.data()
	return exit(x.written(result.code(), report.WriteHTML(x.reportFile, page.OfDoctor(result.hosts))))
}

func (x *doctorCommand) load(c *cobra.Command, args []string) (err error) {
	if x.fix && x.format != "text" {
		return usageError{c, errors.New("--fix shows text: leave out --format")}
	}
	if x.auto && !x.fix {
		return usageError{c, errors.New("--auto-approve needs --fix")}
	}
	x.args = args
	if x.compiled, err = x.app.load(c.Context(), args); err != nil {
		return err
	}
	if !slices.ContainsFunc(x.compiled.Nodes, hasPreflight) {
		return errors.New("no node of the plan has a preflight: none joins a cluster or has a step \"preflight\"")
	}
	x.view = &doctorText{app: x.app, compiled: x.compiled, fix: x.fix}
	if x.json {
		x.view = doctorJSON{x.app}
	}
	return nil
}

func hasPreflight(n plan.Node) bool {
	return slices.ContainsFunc(n.Steps, func(s steps.Spec) bool { return kinds.Of(s).Finds })
}

// diagnose asks all hosts once.
func (x *doctorCommand) diagnose(ctx context.Context) (diagnosed, error) {
	d := x.newDisplay(ui.OnHosts("Diagnosing", x.compiled))
	s := engine.New(x.compiled, x.options(x.compiled, d.Emit))
	defer s.Close()
	hosts := s.Diagnose(ctx)
	d.Close()
	if ctx.Err() != nil {
		return diagnosed{}, exitError(exitInterrupted)
	}
	return diagnosed{hosts: hosts}, nil
}

// fixFindings fixes what was found and diagnoses again, if there was something to fix.
func (x *doctorCommand) fixFindings(ctx context.Context, found diagnosed) (diagnosed, error) {
	x.view.before(found)
	f := &fixing{app: x.app, auto: x.auto, args: x.args, view: x.view, compiled: fixes(x.compiled, found.hosts)}
	fixed, err := f.run(ctx)
	if err != nil || fixed == nil {
		return found, err
	}
	after, err := x.diagnose(ctx)
	after.fixed = fixed
	return after, err
}

// unreached writes the hosts that could not be diagnosed to standard error.
func (x *doctorCommand) unreached(r diagnosed) {
	var ps []ui.Problem
	for _, d := range r.hosts {
		if d.Err != nil {
			p := ui.ProblemOf(d.Err)
			p.Host, p.Source = d.Node.Name, d.Node.Connection.Source
			ps = append(ps, p)
		}
	}
	x.problems(ui.Fold(ps), nil)
}

func (x *doctorCommand) listFindings() error {
	rows := [][]string{{"ID", "SEVERITY", "WHY IT MATTERS"}}
	for _, f := range slices.Concat(preflight.Findables(), doctor.Symptoms()) {
		rows = append(rows, []string{f.ID, string(f.Severity), f.Doc})
	}
	return ui.Table(x.term.Out, x.term.OutLimit(), rows)
}

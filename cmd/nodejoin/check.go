package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/check"
)

// checkCommand is one run of check.
type checkCommand struct {
	*app
	list bool   // --list
	path string // --plan
}

func newCheck(a *app) *cobra.Command {
	x := &checkCommand{app: a}
	c := &cobra.Command{
		Use:   "check [--plan PLAN] FILE...",
		Short: "Check pod manifests against the Windows nodes of a plan",
		Long: `Reads manifests (YAML or JSON; - is standard input) and reports what in them would not run
on the Windows nodes of the plan: fields that Windows does not support, selectors,
tolerations and RuntimeClasses that keep a pod pending forever, images of a Windows build
other than the node's. For Linux pods only images of Windows are reported. No host and no
cluster is asked, so only the labels and RuntimeClasses of the plan are known.

The exit code is 0 if no error was found, 1 if one was, and 3 if the plan or a file cannot
be read.`,
		Example: `  nodejoin check --plan plans/prod deploy/*.yaml
  kustomize build overlays/prod | nodejoin check --plan plans/prod -`,
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	c.Args = nil
	f := c.Flags()
	f.StringVar(&x.path, "plan", ".", "the `plan`: a folder with *.join.hcl files, or one such file")
	f.BoolVar(&a.json, "json", false, "print the findings as JSON on standard output")
	a.formatFlag(c, "markdown", "sarif")
	f.BoolVar(&x.list, "list", false, "list all possible findings; nothing is read")
	c.RunE = x.run
	return c
}

func (x *checkCommand) run(c *cobra.Command, args []string) error {
	if x.list {
		if len(args) > 0 || x.json {
			return usageError{c, errors.New("--list takes no file and no --json")}
		}
		return x.listChecks()
	}
	if len(args) == 0 {
		return usageError{c, errors.New("name the files to check, or - for standard input")}
	}
	if err := noPlans(args); err != nil {
		return usageError{c, err}
	}
	compiled, err := x.load(c.Context(), []string{x.path})
	if err != nil {
		return err
	}
	cluster := check.Of(compiled)
	if len(cluster.Nodes) == 0 {
		return errors.New("the plan has no Windows node, so there is nothing to check the files against")
	}
	files, err := check.ReadFiles(args, c.InOrStdin())
	if err != nil {
		return err
	}
	r, err := check.Run(files, cluster)
	if err != nil {
		return err
	}
	return x.showCheck(r)
}

// noPlans refuses a plan in place of a manifest: validate checks plans.
func noPlans(names []string) error {
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(name, "*"+plan.Suffix))
		if strings.HasSuffix(name, plan.Suffix) || err == nil && len(found) > 0 {
			return fmt.Errorf("%[1]s is a join plan, but check reads pod manifests. To check the plan, run\n"+
				"  nodejoin validate %[1]s\nTo check manifests against it, run\n  nodejoin check --plan %[1]s FILE", name)
		}
	}
	return nil
}

func (a *app) listChecks() error {
	rows := [][]string{{"ID", "SEVERITY", "WHY IT MATTERS"}}
	for _, r := range check.Rows() {
		rows = append(rows, []string{r.ID, string(r.Severity), r.Why})
	}
	return ui.Table(a.term.Out, a.term.OutLimit(), rows)
}

func (a *app) showCheck(r check.Report) error {
	out := jsonout.OfCheck(r)
	shown, err := a.showFindings("nodejoin check", checkedLine(out), report.OfCheck(r))
	switch {
	case shown:
	case a.json:
		err = a.printJSON(out)
	default:
		a.writeCheck(out)
	}
	if err != nil {
		return err
	}
	if out.Errors > 0 {
		return exitError(exitFailed)
	}
	return nil
}

func (a *app) writeCheck(r jsonout.Check) {
	w, width := a.term.Out, a.term.Width()
	styles := map[check.Severity]ui.Style{check.Error: ui.Red, check.Warning: ui.Yellow}
	for _, f := range r.Findings {
		severity := ui.Paint(a.term.OutColor, styles[f.Severity], string(f.Severity)+":")
		fmt.Fprintf(w, "%s:%d,%d %s %s\n", ui.CleanLine(f.File), f.Line, f.Column, severity, f.ID)
		for _, text := range []string{f.Object + ", " + f.Field + ": " + f.Observed, "why: " + f.Why,
			"what to do: " + f.Remedy} {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(ui.Wrap(ui.CleanLine(text), "", max(width-4, 24)), "\n", "\n      "))
		}
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, ui.Wrap(checkedLine(r), "", width))
}

func checkedLine(r jsonout.Check) string {
	return fmt.Sprintf("Checked %d %s, %d with pods, %d of them for Windows: %d %s, %d %s.", r.Objects,
		plural(r.Objects, "object"), r.Pods, r.Windows,
		r.Errors, plural(r.Errors, "error"), r.Warnings, plural(r.Warnings, "warning"))
}

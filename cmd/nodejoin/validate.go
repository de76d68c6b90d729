package main

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

func newValidate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [PLAN]",
		Short: "Check a plan without connecting to any host",
		Long: `Reads and compiles the plan (a folder with *.join.hcl files, or one such file) and reports
everything that is wrong with it. No host and no cluster is asked. Variables need no values:
what depends on one without a value is not judged. No program of a data block is run.`,
		RunE: func(c *cobra.Command, args []string) error {
			a.unvalued = true
			compiled, diags, files, err := a.compile(c.Context(), args)
			if err != nil {
				return err
			}
			shown, err := a.showFindings("nodejoin validate", "", report.OfProblems(ui.FromHCL(diags)))
			switch {
			case shown:
			case a.json:
				err = a.printJSON(jsonout.OfDiagnostics(compiled, diags))
			default:
				a.showValidated(compiled, diags, files)
			}
			if err == nil && diags.HasErrors() {
				err = exitError(exitInvalid)
			}
			return err
		},
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	a.formatFlag(c, "sarif")
	c.Flags().BoolVar(&a.json, "json", false, "print the diagnostics as JSON on standard output")
	return c
}

// showValidated prints the diagnostics, or the size of the plan. Without errors compiled is set.
func (a *app) showValidated(compiled *plan.Compiled, diags hcl.Diagnostics, files map[string]*hcl.File) {
	a.problems(ui.FromHCL(diags), files)
	if diags.HasErrors() {
		return
	}
	if names := compiled.Unread; len(names) > 0 && len(compiled.Unvalued) == 0 {
		a.term.Say("The plan is valid as far as it can be judged without the value of %s, which validate does not read. "+
			"'nodejoin plan' reads it and checks the rest.", ui.FewNames(names, 8))
		return
	}
	if names := slices.Concat(compiled.Unvalued, compiled.Unread); len(names) > 0 {
		a.term.Say("The plan is valid as far as it can be judged without a value of %s. Give values with --var or "+
			"--var-file to check the rest.", ui.FewNames(names, 8))
		return
	}
	n := 0
	for _, node := range compiled.Nodes {
		n += len(node.Steps)
	}
	fmt.Fprintf(a.term.Out, "The plan is valid: %d %s, %d %s.\n", len(compiled.Nodes),
		plural(len(compiled.Nodes), "node"), n, plural(n, "step"))
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// jsonDiagnostics is the JSON output of validate (examples/schema/validate.schema.json).
type jsonDiagnostics struct {
	FormatVersion string       `json:"format_version"`
	Valid         bool         `json:"valid"`
	Errors        int          `json:"error_count"`
	Warnings      int          `json:"warning_count"`
	Diagnostics   []ui.Problem `json:"diagnostics"`
}

func newValidate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [PLAN]",
		Short: "Check a plan without touching any host",
		Long:  "Reads and compiles the plan (a folder with *.join.hcl files, or one such file) and reports all that is wrong with it. No host and no cluster is asked.",
	}
	a.planFlags(c)
	c.Flags().BoolVar(&a.json, "json", false, "print the diagnostics as JSON on standard output")
	c.RunE = func(c *cobra.Command, args []string) error {
		compiled, diags, files, err := a.compile(c.Context(), args)
		if err != nil {
			return err
		}
		ps := ui.FromHCL(diags)
		if a.json {
			out := jsonDiagnostics{FormatVersion: "1", Valid: !diags.HasErrors(), Diagnostics: append([]ui.Problem{}, ps...)}
			for _, p := range ps {
				if p.Warning {
					out.Warnings++
				} else {
					out.Errors++
				}
			}
			if err := a.printJSON(out); err != nil {
				return err
			}
		} else {
			a.problems(ps, files)
		}
		if diags.HasErrors() {
			return exitError(exitInvalid)
		}
		if !a.json {
			n := 0
			for _, node := range compiled.Nodes {
				n += len(node.Steps)
			}
			fmt.Fprintf(a.term.Out, "The plan is valid: %d %s, %d %s.\n", len(compiled.Nodes), plural(len(compiled.Nodes), "node"), n, plural(n, "step"))
		}
		return nil
	}
	return c
}

package main

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/format"
	"nodejoin/cmd/nodejoin/internal/ui"
)

func newFmt(a *app) *cobra.Command {
	f := &format.Formatter{Term: a.term, Problems: func(list hcl.Diagnostics, files map[string]*hcl.File) {
		a.problems(ui.FromHCL(list), files)
	}}
	c := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Format plan files",
		Long: `Rewrites *.join.hcl and *.joinvars files (of this folder, or of the given folders and
files) with canonical indentation and spacing, and prints the names of those it changed.
With "-" it formats standard input to standard output.

The exit code is 0 if all is done, 2 with --check if a file is not formatted, and 3 if a
file is not valid HCL; that file is not changed, the others are formatted.`,
		Example: `  nodejoin fmt -r plans            format all plans below
  nodejoin fmt --check --diff      show what would change here (for CI)`,
	}
	c.Flags().BoolVar(&f.Check, "check", false, "change nothing; exit with 2 if a file is not formatted")
	c.Flags().BoolVar(&f.Diff, "diff", false, "print the differences")
	c.Flags().BoolVarP(&f.Recursive, "recursive", "r", false, "go into subfolders, except hidden ones")
	c.Flags().BoolVar(&f.List, "list", true, "print the names of files that are not formatted")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := f.Run(args); err != nil {
			return err
		}
		switch {
		case f.Broken > 0:
			return exitError(exitInvalid)
		case f.Check && f.Changed > 0:
			return exitError(exitPending)
		}
		return nil
	}
	return c
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/rendered"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/render"
)

// renderCommand is one run of render.
type renderCommand struct {
	*app
	out   string // --out
	force bool
}

func newRender(a *app) *cobra.Command {
	x := &renderCommand{app: a}
	c := &cobra.Command{
		Use:   "render [PLAN] --out DIR",
		Short: "Write everything that each node would get into a folder",
		Long: `Writes every file, service definition, registry value, firewall rule and cluster object
that each node would get into DIR/NODE. No host and no cluster is asked. Values that are
not known yet are written as (known after STEP), secrets as (sensitive). The same plan
gives the same files, so the folder can be compared and kept in git.

A folder that is not empty and was not made by render is refused without --force. With
--force its other files are kept.`,
		Example: "  nodejoin render plans/prod --out rendered && diff -r rendered.before rendered",
		RunE:    x.run,
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	a.targetFlags(c)
	c.Flags().StringVar(&x.out, "out", "", "the `folder` to write")
	c.Flags().BoolVar(&x.force, "force", false, "write into a folder that has other files")
	_ = c.MarkFlagDirname("out")
	return c
}

func (x *renderCommand) run(c *cobra.Command, args []string) error {
	if x.out == "" {
		return usageError{c, errors.New("render needs --out: the folder to write, for example\n" +
			"  nodejoin render plans/prod --out rendered")}
	}
	compiled, err := x.load(c.Context(), args)
	if err != nil {
		return err
	}
	files, err := render.Nodes(compiled)
	if err != nil {
		return err
	}
	if err := rendered.Write(x.out, files, x.force); err != nil {
		return err
	}
	n := len(compiled.Nodes)
	fmt.Fprintf(x.term.Out, "Rendered %d %s, %d files, into %s.\n", n, plural(n, "node"), len(files), ui.CleanLine(x.out))
	return nil
}

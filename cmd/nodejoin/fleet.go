package main

import (
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/fleet"
	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

func newFleet(a *app, execute runner) *cobra.Command {
	return fleet.Command(fleet.App{PlanFlags: a.environmentFlag, Load: a.loadFleet, Exit: exit,
		Out: a.term.Out, Err: a.term.Err,
		Usage: func(c *cobra.Command, err error) error { return usageError{c, err} },
		Approve: func(ctx context.Context, p *plan.Compiled, question string) error {
			return a.approve(ctx, p, question, "give --auto-approve")
		},
		Run: func(ctx context.Context, args []string, out, err io.Writer) int {
			return execute(ctx, &app{term: &ui.Term{Out: out, Err: err, In: strings.NewReader("")}}, args)
		}})
}

// loadFleet compiles a plan for the pods of a fleet: they have the agents, and the values that are not here.
func (a *app) loadFleet(ctx context.Context, args []string) (*plan.Compiled, string, []string, error) {
	a.unvalued, a.note, a.agent = true, map[string]bool{}, noAgent
	c, diags, texts, err := a.compile(ctx, args)
	if err != nil {
		return nil, "", nil, err
	}
	if a.problems(ui.FromHCL(diags), texts); diags.HasErrors() {
		return nil, "", nil, exitError(exitInvalid)
	}
	files := slices.Sorted(maps.Keys(a.note))
	at, err := filepath.Abs(planArg(args))
	return c, planbundle.RootOf(at, files), files, err
}

// noAgent stands for agents that are not needed here.
func noAgent(context.Context, string, string) (path, digest string, err error) {
	return "agent", strings.Repeat("0", 64), nil
}

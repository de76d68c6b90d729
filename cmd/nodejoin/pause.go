package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

func newPause(a *app) *cobra.Command {
	pause, lasts := steps.GuardPause{}, time.Duration(0)
	c := &cobra.Command{
		Use:   "pause [PLAN] --target NODE",
		Short: "Stop the guard of nodes from fixing anything",
		Long: `The service nodejoin-node of these nodes still checks them and reports, but fixes
nothing: a service that you stop stays stopped. A boot and an apply end no pause; an
apply starts the services all the same. A node that follows a plan ends its round
before the next step, and goes on after the pause.`,
		Example: `  nodejoin pause plans/prod --target win-1 --for 2h --reason "new disk"`,
		RunE: func(c *cobra.Command, args []string) error {
			a.holder = holder.New("pause")
			pause.By, pause.Since = a.holder.User+"@"+a.holder.Host, a.holder.Since
			if lasts > 0 {
				pause.Until = pause.Since.Add(lasts)
			}
			return a.pause(c, args, &pause)
		},
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().DurationVar(&lasts, "for", 0, "end the pause after this `duration`; default until unpause")
	c.Flags().StringVar(&pause.Reason, "reason", "", "`text` that status shows")
	return c
}

func newUnpause(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "unpause [PLAN] --target NODE",
		Short:   "Let the guard of paused nodes work again",
		Long:    "Ends a pause. The service nodejoin-node fixes what it finds at its next check.",
		Example: `  nodejoin unpause plans/prod --target win-1`,
		RunE: func(c *cobra.Command, args []string) error {
			a.holder = holder.New("unpause")
			return a.pause(c, args, nil)
		},
	}
	a.planFlags(c)
	a.runFlags(c)
	return c
}

// pause pauses the nodes of --target, or ends that.
func (a *app) pause(c *cobra.Command, args []string, p *steps.GuardPause) error {
	if len(a.targets) == 0 {
		return usageError{c, errors.New(c.Name() + " needs --target: name the nodes")}
	}
	compiled, err := a.load(c.Context(), args)
	if err != nil {
		return err
	}
	title := "Pausing"
	if p == nil {
		title = "Unpausing"
	}
	d := a.newDisplay(ui.OnHosts(title, compiled))
	s := engine.New(compiled, a.options(compiled, d.Emit))
	defer s.Close()
	paused := s.Pause(c.Context(), p)
	d.Close()
	code, problems := exitOK, []ui.Problem(nil)
	for _, n := range paused {
		if n.Err != nil {
			code = worst(code, errorCode(n.Err))
			problem := ui.ProblemOf(n.Err)
			problem.Host, problem.Source = n.Node.Name, n.Node.Connection.Source
			problems = append(problems, problem)
			continue
		}
		fmt.Fprintln(a.term.Out, ui.PauseLine(n.Node.Name, n.Reply, p))
	}
	a.problems(ui.Fold(problems), nil)
	return exit(code)
}

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/cmd/nodejoin/internal/pull"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
)

// firstBoot is what the commands of the first boot share with the others.
func (a *app) firstBoot(execute runner) firstboot.App {
	return firstboot.App{PlanFlags: a.planFlags, Load: a.loadFirstBoot, Exit: exit, Notice: a.term.Notice,
		Out:    a.term.Out,
		Usage:  func(c *cobra.Command, err error) error { return usageError{c, err} },
		Failed: a.failed,
		Apply: func(r firstboot.Alone, notes string) firstboot.Apply {
			return a.applyAlone(execute, r, func(own *app) { own.notes = notes })
		},
		Approve: a.approve, Options: a.options, Say: a.term.Say}
}

// follow is what the command of a node that follows a plan shares with the others.
func (a *app) follow(execute runner) pull.App {
	return pull.App{Exit: exit, Notice: a.term.Notice,
		Usage: func(c *cobra.Command, err error) error { return usageError{c, err} },
		Apply: func(r *pull.Run) firstboot.Apply {
			return a.applyAlone(execute, r, func(own *app) { own.fails, own.followLogin = r.Fails, r.Login() })
		}}
}

// applyAlone runs apply for the run of a machine, as an app of its own, which set completes.
func (a *app) applyAlone(execute runner, r firstboot.Alone, set func(*app)) firstboot.Apply {
	return func(ctx context.Context, args []string) (int, firstboot.Outcome) {
		own := &app{term: &ui.Term{Out: a.term.Out, Err: a.term.Err, In: strings.NewReader("")}, alone: r}
		set(own)
		code := execute(ctx, own, args)
		return code, map[int]firstboot.Outcome{exitOK: firstboot.Finished, exitReboot: firstboot.Rebooting,
			exitUnreachable: firstboot.Waiting, exitLocked: firstboot.Waiting}[code]
	}
}

// loadFirstBoot compiles the plan of user data, and notes what it is read with that a machine does not have.
func (a *app) loadFirstBoot(ctx context.Context, args []string) (l firstboot.Loaded, err error) {
	a.followLogin, l.Environment = &steps.Login{}, a.environment // nodes with a login get no user data
	for _, f := range a.varFiles {
		l.Needs = append(l.Needs, "--var-file "+f)
	}
	a.env = func(name string) (string, bool) {
		v, ok := lookupEnv(name)
		if ok && !slices.Contains(l.Needs, name) {
			l.Needs = append(l.Needs, name)
		}
		return v, ok
	}
	if l.Values, err = a.variables(); err != nil {
		return l, err
	}
	l.Plan, err = a.load(ctx, args)
	return l, err
}

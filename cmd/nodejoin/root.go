package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/buildinfo"
	"nodejoin/cmd/nodejoin/internal/complete"
	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/cmd/nodejoin/internal/pull"
	"nodejoin/cmd/nodejoin/internal/usage"
)

// newRoot has all commands. The one that finishes a plan after a reboot runs another of them with execute.
func newRoot(a *app, execute runner) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodejoin",
		Short: "Join machines to a Kubernetes cluster, by a plan in git",
		Long: `nodejoin reads a join plan (*.join.hcl), compares it with the machines it names,
and makes them nodes of a Kubernetes cluster: locally, over SSH or over WinRM, step by step,
each step checked, applied and verified. Running it again changes only what differs.`,
		Example: `  nodejoin validate plans/prod        check the plan
  nodejoin plan plans/prod            show what would change
  nodejoin apply plans/prod           change it
  nodejoin status plans/prod          show whether the nodes still match the plan`,
		SilenceUsage: true, SilenceErrors: true,
		Version: version,
	}
	root.SetOut(a.term.Out)
	root.SetVersionTemplate(buildinfo.Of(version).String() + "\n")
	root.SuggestionsMinimumDistance = 2
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = " Did you mean " + near[0] + "?"
		}
		return usageError{c, fmt.Errorf("unknown command %q.%s", args[0], hint)}
	}
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.PersistentPreRunE = a.beginLog
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{c, usage.FlagError(c, err)}
	})
	root.AddCommand(newValidate(a), newPlan(a), newApply(a), newLeave(a), newPause(a), newUnpause(a),
		newStatus(a), newHistory(a), newLogs(a), newGraph(a), newVersion(a))
	root.AddCommand(newDoctor(a), newCheck(a), newVerify(a), newInit(a), newFmt(a), newRender(a), newOutput(a),
		newShards(a), newLock(a), newMirror(a), newBundle(a), newFleet(a, execute), newMan(), newResume(execute))
	boot := a.firstBoot(execute)
	root.AddCommand(firstboot.Bake(boot), firstboot.UserData(boot), firstboot.FirstBoot(boot),
		pull.Follow(a.follow(execute)))
	usage.StrictBuiltins(root, func(c *cobra.Command, err error) error { return usageError{c, err} })
	complete.Flags(root)
	a.wrapHelp(root)
	return root
}

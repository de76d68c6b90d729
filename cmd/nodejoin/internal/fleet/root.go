package fleet

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Command is nodejoin fleet.
func Command(a App) *cobra.Command {
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Run a plan in a cluster, in a pod for each shard of its nodes",
		Long: `Runs a plan as an Indexed Job of Kubernetes: each pod applies the plan to one shard of its
nodes, as 'nodejoin apply --shard I/N' does. Kubernetes starts the pods, some at a time, and
restarts those whose hosts were locked or did not answer (exit codes 7 and 4). A plan that is
not valid (3) ends the Job. Each shard leaves its result in a ConfigMap, and 'fleet status'
makes one report of them.

The pods need an image of nodejoin, which a release has, and SSH keys in a Secret. They act with
the rights of a ServiceAccount, which are limited to what the plan needs.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.Usage(c, fmt.Errorf("there is no command %q", "fleet "+args[0]))
			}
			return c.Help()
		},
	}
	for _, make := range []func(*command) *cobra.Command{newRender, newApply, newStatus, newLogs, newStop, newWork} {
		c.AddCommand(make(&command{App: a}))
	}
	return c
}

func newRender(x *command) *cobra.Command {
	c := &cobra.Command{
		Use:   "render [PLAN] --image IMAGE",
		Short: "Print the objects of a fleet as YAML",
		Long: `Prints what 'nodejoin fleet apply' would apply, except for Secrets, as YAML for kubectl or
a repository. No host and no cluster is asked. The same plan gives the same text.`,
		Example: `  nodejoin fleet render plans/prod --image registry.example/nodejoin:1.0 --known-hosts hosts |
    kubectl apply -f -`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		f, _, err := x.load(c, args)
		if err != nil {
			return err
		}
		return f.Render(x.Out)
	}
	x.fleetFlags(c)
	return c
}

package pull

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/plan"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// App is what the command shares with the others of nodejoin.
type App struct {
	Apply  func(*Run) firstboot.Apply
	Exit   func(code int) error
	Usage  func(*cobra.Command, error) error
	Notice func(string)
}

// Follow is nodejoin follow.
func Follow(a App) *cobra.Command {
	c := &cobra.Command{
		Use:   "follow FILE",
		Short: "Apply the newest release of a plan to this machine",
		Long: `Makes one round of a machine that follows a plan, for a timer: it fetches the release that FILE
names, and applies its own part of the plan if the release is new. What the release no longer names
is removed, and an upgrade that fails is rolled back. Nobody has to reach the machine.

A release is a bundle that somebody signed ('nodejoin bundle PLAN -o prod.tar --sign KEY'). Only
one that somebody has signed whom this machine trusts, for this plan, and with a higher serial number
than the last one counts. Of two signatures each must be good and trusted. In its window, after a
random pause, each node waits for its turn: the rollout of the plan says how many apply it at a time,
and after how many failures the others wait.

What a round came to is printed, and is in the Node's annotation nodejoin.dev/follows and condition
NodejoinFollowsPlan: Applied, Waiting, Refused, Failed, NotFetched, ApplyFailed, RolledBack or
RebootPending.

FILE is JSON: version (1), node, plan (the name of the releases), source (of the release:
https://..., oci://HOST/REPOSITORY:TAG or an absolute path), signers (file of trusted keys, as
allowed_signers of ssh-keygen) or sigstore (file of identities and keys that sign with cosign) or
both, kubeconfig, and optionally windows (["Sat,Sun 22:00-04:00"], UTC), jitter ("10m"), values (of
variables), environment, and login (file of a user and password, or a token, for the server of
source).

The exit code is 0 if the node has the newest release or waits for its turn, 1 if the release is
refused, 3 if FILE is wrong, 4 if something does not answer, and else that of 'nodejoin apply'.`,
		Example: `  nodejoin follow /etc/nodejoin/follow.json`,
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return a.Usage(c, errors.New("follow needs the file that says which plan this machine follows"))
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		r := &Run{Path: args[0], Say: a.Notice, Open: openCluster}
		r.Apply = a.Apply(r)
		code, err := r.Do(c.Context())
		switch {
		case c.Context().Err() != nil:
			return a.Exit(exitInterrupted)
		case err != nil:
			return err
		}
		return a.Exit(code)
	}
	return c
}

// openCluster opens the cluster of a File.
func openCluster(ctx context.Context, f *File) (kube.API, error) {
	if f.Sandbox != "" {
		return sandbox.OpenCluster(ctx, sandbox.ClusterConfig{Dir: f.Sandbox})
	}
	return connect.Cluster(&plan.Compiled{Cluster: &plan.Cluster{Kubeconfig: f.Kubeconfig}})(ctx)
}

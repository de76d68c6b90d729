package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/cluster"
	"nodejoin/steps/kube"
)

// goneFor bounds the wait until a former Job is gone. Its pods have two minutes for their step (fleet.yaml.tmpl).
const goneFor = 3 * time.Minute

func newApply(x *command) *cobra.Command {
	c := &cobra.Command{
		Use:   "apply [PLAN] --image IMAGE",
		Short: "Start the Job that applies a plan",
		Long: `Applies the objects that 'nodejoin fleet render' prints, and the Secrets: the files of
--ssh-key, the plan's files of values, and files with values that the plan calls sensitive. The
Job starts at once; 'nodejoin fleet status' shows its progress. A Job of the same name that has
ended is replaced, with its results; one that runs is not.`,
		Example: `  nodejoin fleet apply plans/prod --image registry.example/nodejoin:1.0 \
    --known-hosts ~/.ssh/known_hosts --ssh-key ~/.ssh/id_ed25519`,
	}
	c.RunE = func(c *cobra.Command, args []string) error { return x.apply(c, args) }
	x.fleetFlags(c)
	x.clusterFlag(c)
	c.Flags().StringArrayVar(&x.keys, "ssh-key", nil, "private key `file` for the pods; may be repeated")
	c.Flags().BoolVar(&x.auto, "auto-approve", false, "do not ask for approval")
	return c
}

func (x *command) apply(c *cobra.Command, args []string) error {
	ctx := c.Context()
	if x.others != "" && x.kubeconfig == "" {
		return x.Usage(c, errors.New("--pods-kubeconfig needs --kubeconfig: that of the cluster that the pods run in"))
	}
	f, p, err := x.load(c, args)
	if err != nil {
		return err
	}
	keys, err := x.keyFiles()
	if err != nil {
		return err
	}
	objects, err := f.Objects()
	if err != nil {
		return err
	}
	api, err := x.open(ctx, args)
	if err != nil {
		return err
	}
	if err := x.idle(ctx, api, f.Plan); err != nil {
		return err
	}
	if !x.auto {
		question := fmt.Sprintf("Apply the plan to %d nodes, in %d shards?", f.Nodes, f.Shards)
		if err := x.Approve(ctx, p, question); err != nil {
			return err
		}
	}
	if f.Packed != nil {
		if err := f.Packed.push(ctx); err != nil {
			return fmt.Errorf("--plan-image: %w", err)
		}
	}
	if err := x.removeFormer(ctx, api); err != nil {
		return err
	}
	if err := f.write(ctx, api, objects, keys); err != nil {
		return err
	}
	_, err = fmt.Fprintf(x.Out, "Started the Job %s/%s: %d shards, at most %d at once. 'nodejoin fleet status' shows "+
		"its progress.\n", x.Namespace, x.Name, x.Shards, x.AtOnce)
	return err
}

// write applies the namespace, and then all else. The API server judges each object before any is written.
func (f *Fleet) write(ctx context.Context, api *cluster.Jobs, objects []kube.Manifest, keys map[string][]byte) error {
	objects[0].Force = true
	if err := api.ApplyManifest(ctx, objects[0]); err != nil {
		return err
	}
	rest := append(f.secrets(keys), objects[1:]...)
	for i := range rest {
		rest[i].Force = true
		if err := api.DryRun(ctx, rest[i]); err != nil {
			return err
		}
	}
	for _, m := range rest {
		if err := api.ApplyManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// idle is an error while the Job runs, and where it is that of another plan, or of another environment of the plan.
func (x *command) idle(ctx context.Context, api *cluster.Jobs, plan string) error {
	have, err := api.Get(ctx, x.job())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	of, _ := field(field(have, "metadata"), "annotations")[kube.PlanOf].(string)
	if of != "" && of != plan {
		return fmt.Errorf("the Job %s/%s is of another plan or environment (%s): give this one a --name of its own",
			x.Namespace, x.Name, ui.CleanLine(of))
	}
	if s := stateOf(have); !s.Ended() && !s.Suspended {
		return fmt.Errorf("the Job %s/%s is running: wait until it has ended ('nodejoin fleet status'), or stop it first "+
			"('nodejoin fleet stop')", x.Namespace, x.Name)
	}
	return nil
}

// removeFormer deletes a Job that has ended or was stopped, and waits until it is gone and its pods have ended: they
// may be in a step.
func (x *command) removeFormer(ctx context.Context, api *cluster.Jobs) error {
	if err := api.DeleteObject(ctx, kube.Member{Manifest: x.job()}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, goneFor, fmt.Errorf("it took longer than %s", goneFor))
	defer cancel()
	waits := "the former Job " + x.Namespace + "/" + x.Name
	for {
		left, err := x.left(ctx, api)
		switch {
		case err == nil && left == "":
			return nil
		case err == nil:
			waits = left
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond): // between two checks
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of %s: %w", waits, context.Cause(ctx))
		}
	}
}

// left is what is still there of the former Job.
func (x *command) left(ctx context.Context, api *cluster.Jobs) (string, error) {
	_, err := api.Get(ctx, x.job())
	if err == nil {
		return "the former Job " + x.Namespace + "/" + x.Name, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	pods, err := x.pods(ctx, api, x.Name)
	for _, p := range pods {
		if phase := field(p, "status")["phase"]; phase != "Succeeded" && phase != "Failed" {
			return "the pod " + x.Namespace + "/" + text(p, "name") + " of the former Job", nil
		}
	}
	return "", err
}

func newStop(x *command) *cobra.Command {
	c := &cobra.Command{
		Use:   "stop [PLAN]",
		Short: "Stop the Job: its pods end after their current step",
		Long: `Suspends the Job, and the CronJob that checks for drift. The runs in its pods finish their
current step and end. 'nodejoin fleet apply' starts a new Job, which does not repeat what is done.`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := x.open(c.Context(), args)
		if err != nil {
			return err
		}
		stop := map[string]any{"spec": map[string]any{"suspend": true}}
		err = api.Merge(c.Context(), x.job(), stop)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the Job %s/%s does not exist", x.Namespace, x.Name)
		}
		if err != nil {
			return err
		}
		err = api.Merge(c.Context(), object("batch/v1", "CronJob", x.Namespace, x.Name+"-drift"), stop)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err = fmt.Fprintf(x.Out, "Stopped the Job %s/%s. Its pods end after their current step.\n", x.Namespace, x.Name)
		return err
	}
	x.PlanFlags(c)
	x.nameFlags(c)
	x.clusterFlag(c)
	return c
}

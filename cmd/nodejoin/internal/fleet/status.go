package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"nodejoin/steps/cluster"
	"nodejoin/steps/kube"
)

func newStatus(x *command) *cobra.Command {
	c := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "Show the progress of the Job, and one report of all shards",
		Long: `Reads the Job and the results that its shards have left, and prints one report of them. The
exit code is that of the worst shard: as if one run had applied the plan to all nodes.
The last line sums up the newest check for drift, if there is one. --drift prints the report of
that check instead; the exit code is 2 if it found changes.`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := x.open(c.Context(), args)
		if err != nil {
			return err
		}
		report, err := x.report(c.Context(), api)
		if err != nil {
			return err
		}
		if err := report.writeMetrics(x.metrics); err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		if x.json {
			e := json.NewEncoder(x.Out)
			e.SetIndent("", "  ")
			err = e.Encode(report)
		} else {
			err = report.Text(x.Out)
		}
		if err != nil {
			return err
		}
		return x.Exit(report.ExitCode)
	}
	x.PlanFlags(c)
	x.nameFlags(c)
	x.clusterFlag(c)
	c.Flags().BoolVar(&x.json, "json", false, "print JSON on standard output")
	c.Flags().BoolVar(&x.drift, "drift", false, "the newest check for drift")
	c.Flags().StringVar(&x.metrics, "metrics", "",
		"also write the metrics of all shards for Prometheus into `file`, for the textfile collector of node_exporter")
	return c
}

// report is that of the Job, with a check for drift if there is one, or with --drift that of the check.
func (x *command) report(ctx context.Context, api *cluster.Jobs) (Report, error) {
	check, err := x.newestCheck(ctx, api)
	if x.drift {
		if err != nil {
			return Report{}, err
		}
		return x.gather(ctx, api, check)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, err
	}
	have, jobErr := api.Get(ctx, x.job())
	if errors.Is(jobErr, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("the Job %s/%s does not exist: 'nodejoin fleet apply' starts it", x.Namespace, x.Name)
	}
	if jobErr != nil {
		return Report{}, jobErr
	}
	out, jobErr := x.gather(ctx, api, stateOf(have))
	if jobErr != nil || err != nil {
		return out, jobErr
	}
	drift, err := x.gather(ctx, api, check)
	out.Drift = &drift
	return out, err
}

// newestCheck is the Job of the CronJob that ended last, or that runs if none has ended. It is fs.ErrNotExist if there
// is none.
func (x *command) newestCheck(ctx context.Context, api *cluster.Jobs) (newest JobState, err error) {
	of := x.job()
	of.Name = ""
	list, err := api.List(ctx, of, "app.kubernetes.io/instance="+x.Name)
	if err != nil {
		return newest, err
	}
	cron := x.Name + "-drift"
	for _, m := range list {
		s := stateOf(m)
		if owned(m, "kind", "CronJob") && owned(m, "name", cron) && (newest.Name == "" ||
			s.Ended() && !newest.Ended() || s.Ended() == newest.Ended() && s.Created.After(newest.Created)) {
			newest = s
		}
	}
	if newest.Name == "" {
		return newest, fmt.Errorf("the CronJob %s/%s has not started a check for drift: %w", x.Namespace, cron,
			fs.ErrNotExist)
	}
	return newest, nil
}

// gather reads the results of a Job.
func (x *command) gather(ctx context.Context, api *cluster.Jobs, job JobState) (Report, error) {
	list, err := api.List(ctx, kube.Manifest{APIVersion: "v1", Kind: "ConfigMap", Namespace: x.Namespace},
		resultOf+"="+job.Name)
	if err != nil {
		return Report{}, err
	}
	var results []Result
	for _, m := range list {
		if !owned(m, "uid", job.UID) {
			continue // of a former Job
		}
		r, err := resultFrom(m)
		if err != nil {
			return Report{}, err
		}
		results = append(results, r)
	}
	return Gather(job, results)
}

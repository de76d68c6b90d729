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
exit code is that of the worst shard: as if one run had applied the plan to all nodes.`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := x.open(c.Context(), args)
		if err != nil {
			return err
		}
		report, err := x.gather(c.Context(), api)
		if err != nil {
			return err
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
	return c
}

// gather reads the Job and its results.
func (x *command) gather(ctx context.Context, api *cluster.Jobs) (Report, error) {
	have, err := api.Get(ctx, x.job())
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("the Job %s/%s does not exist: 'nodejoin fleet apply' starts it", x.Namespace, x.Name)
	}
	if err != nil {
		return Report{}, err
	}
	job := stateOf(have)
	list, err := api.List(ctx, kube.Manifest{APIVersion: "v1", Kind: "ConfigMap", Namespace: x.Namespace},
		resultOf+"="+x.Name)
	if err != nil {
		return Report{}, err
	}
	var results []Result
	for _, m := range list {
		if !ownedBy(m, job.UID) {
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

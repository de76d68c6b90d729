package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
)

func newLogs(x *command) *cobra.Command {
	c := &cobra.Command{
		Use:   "logs [PLAN]",
		Short: "Print what the pods of the Job have written",
		Long:  "Prints the logs of the Job's pods, by shard and the oldest pod first, up to 64 KiB of each.",
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		api, err := x.open(ctx, args)
		if err != nil {
			return err
		}
		job := x.Name
		if x.drift {
			check, err := x.newestCheck(ctx, api)
			if err != nil {
				return err
			}
			job = check.Name
		}
		pods, err := x.pods(ctx, api, job)
		if err != nil {
			return err
		}
		slices.SortFunc(pods, func(a, b map[string]any) int {
			return cmp.Or(cmp.Compare(shardOf(a), shardOf(b)), cmp.Compare(text(a, "creationTimestamp"),
				text(b, "creationTimestamp")))
		})
		for _, p := range pods {
			if x.shard != 0 && shardOf(p) != x.shard {
				continue
			}
			name := text(p, "name")
			log, err := api.PodLog(ctx, x.Namespace, name)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				log = "no log: " + err.Error() + "\n" // it may not have started
			}
			_, err = fmt.Fprintf(x.Out, "--- shard %d, pod %s\n%s", shardOf(p), ui.CleanLine(name), ui.Clean(log))
			if err != nil {
				return err
			}
		}
		return nil
	}
	x.PlanFlags(c)
	x.nameFlags(c)
	x.clusterFlag(c)
	c.Flags().IntVar(&x.shard, "shard", 0, "only the pods of this shard")
	c.Flags().BoolVar(&x.drift, "drift", false, "the pods of the newest check for drift")
	return c
}

// shardOf is the shard of a pod, from 1.
func shardOf(pod map[string]any) int {
	s, _ := field(field(pod, "metadata"), "annotations")["batch.kubernetes.io/job-completion-index"].(string)
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n + 1
}

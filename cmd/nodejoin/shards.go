package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/flagvalue"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/cmd/nodejoin/internal/ui"
)

// shardsCommand is one run of shards.
type shardsCommand struct {
	*app
	count int // --count
}

func newShards(a *app) *cobra.Command {
	x := &shardsCommand{app: a, count: 2}
	c := &cobra.Command{
		Use:   "shards [PLAN]",
		Short: "Print which nodes --shard selects",
		Long: `Prints the nodes of each shard of a plan, for commands with --shard I/N. A node's name
and the number of shards decide its shard, nothing else. No host and no cluster is asked.`,
		Example: `  nodejoin shards plans/prod --count 8
  nodejoin apply plans/prod --shard 3/8`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	c.Flags().Var((*flagvalue.Positive)(&x.count), "count", "how many shards")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON on standard output")
	return c
}

func (x *shardsCommand) run(c *cobra.Command, args []string) error {
	compiled, err := x.load(c.Context(), args)
	if err != nil {
		return err
	}
	lists, err := selection.Shards(compiled, x.count)
	if err != nil {
		return usageError{c, err}
	}
	if x.json {
		return x.printJSON(jsonout.OfShards(lists))
	}
	rows := [][]string{{"SHARD", "COUNT", "NODES"}}
	for i, names := range lists {
		rows = append(rows, []string{strconv.Itoa(i + 1), strconv.Itoa(len(names)), strings.Join(names, ", ")})
	}
	return ui.Table(x.term.Out, x.term.OutLimit(), rows)
}

package main

import (
	"context"
	"errors"
	"fmt"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

// load reads and compiles the plan that the arguments name. It prints diagnostics; an
// invalid plan is exitInvalid.
func (a *app) load(ctx context.Context, args []string) (*plan.Compiled, error) {
	c, diags, files, err := a.compile(ctx, args)
	if err != nil {
		return nil, err
	}
	a.problems(ui.FromHCL(diags), files)
	switch {
	case diags.HasErrors() && ctx.Err() != nil:
		return nil, exitError(exitInterrupted) // a program of a data block was stopped
	case diags.HasErrors():
		return nil, exitError(exitInvalid)
	}
	if a.alone != nil {
		switch err := a.alone.Prepare(ctx, c); {
		case errors.Is(err, firstboot.ErrNotNow):
			return nil, exitError(exitLocked)
		case err != nil:
			return nil, a.failed(err)
		}
	}
	a.digest, a.data, a.unverified = plan.Digest(files), c.Data, c.Lock.Unverified()
	a.resume = a.resumer(ctx, args)
	if c.Cluster != nil {
		a.clusterAt = c.Cluster.Source
	}
	a.members = []string{}
	for _, n := range c.Nodes {
		a.members = append(a.members, n.Name)
	}
	if err := selection.Apply(c, a.targets, a.skips); err != nil {
		return nil, err
	}
	a.keepShard(c)
	return c, nil
}

// loadLocked is load for a plan that must have a lock.
func (a *app) loadLocked(ctx context.Context, args []string) (*plan.Compiled, error) {
	p, err := a.load(ctx, args)
	if err == nil && p.Lock == nil {
		err = fmt.Errorf("the plan has no lock, which says what its artifacts are; run 'nodejoin lock %s'",
			ui.CleanLine(planArg(args)))
	}
	return p, err
}

// keepShard drops the nodes of c that are not in the shard of --shard, and says so.
func (a *app) keepShard(c *plan.Compiled) {
	if a.shard.Count == 0 {
		return
	}
	a.shard.Keep(c)
	a.term.Notice(fmt.Sprintf("Shard %s has %d of the plan's %d %s.", a.shard.String(), len(c.Nodes), len(a.members),
		plural(len(a.members), "node")))
}

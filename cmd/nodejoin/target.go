package main

import (
	"context"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/complete"
	"nodejoin/cmd/nodejoin/internal/modules"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/plan"
	"nodejoin/plan/eval"
)

// targetFlags are those of every command that selects nodes and steps.
func (a *app) targetFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&a.targets, "target", nil,
		"only this node, or this step and those it needs, by `address`; may be repeated")
	f.StringArrayVar(&a.skips, "skip", nil,
		"leave out this node, or this step and those that need it, by `address`; may be repeated")
	f.Var(&a.shard, "shard", "only the nodes of shard I of N, 1/N to N/N; 'nodejoin shards' shows which those are")
	for _, name := range []string{"target", "skip"} {
		_ = c.RegisterFlagCompletionFunc(name, a.completeAddress)
	}
}

// completeAddress completes an address of the plan on the command line. For a plan that
// does not compile it completes nothing.
func (a *app) completeAddress(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	compiled := a.compileForCompletion(c.Context(), planArg(args))
	if compiled == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return selection.Complete(compiled, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeVar completes the name of a variable of the plan.
func (a *app) completeVar(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	p, _ := plan.Load(planArg(args), plan.Options{Version: version})
	return complete.Names(p.Variables(), typed, "="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeEnvironment completes the name of an environment of the plan.
func completeEnvironment(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	path, err := planPath(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return complete.Names(eval.Environments(path), typed, ""), cobra.ShellCompDirectiveNoFileComp
}

// compileForCompletion compiles without building an agent, and prints nothing.
func (a *app) compileForCompletion(ctx context.Context, path string) *plan.Compiled {
	vars, err := a.variables()
	if err != nil {
		return nil
	}
	p, diags := plan.Load(path, plan.Options{Vars: vars, VarFiles: a.varFiles,
		Environment: a.environment, Env: lookupEnv, Agent: anyAgent, Self: anyAgent,
		// No program is run for a completion, and no module is fetched.
		Unvalued: true, Version: version, Module: modules.Reader(ctx, modules.Options{Offline: true})})
	if p == nil || diags.HasErrors() {
		return nil
	}
	c, _ := p.Compile()
	return c
}

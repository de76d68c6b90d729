package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/firstplan"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

func newInit(a *app) *cobra.Command {
	i := &initializer{app: a}
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write a first plan, from answers or flags",
		Long: `Writes FOLDER/NAME.join.hcl (default: this folder), a commented plan that joins Windows
and Linux hosts to a cluster. On a terminal it asks for what the flags leave open. It
overwrites nothing, and writes no plan that would be invalid.

With --mirror, nodejoin takes the artifacts from that folder, and writes their digests into
nodejoin.lock.hcl. Without it the hosts download them from upstream, and 'nodejoin lock' finds
the digests.`,
		Example: `  nodejoin init plans/prod            asks
  nodejoin init --name prod --api-server https://10.0.0.10:6443 \
    --host win-1=10.0.0.21 --linux-host lin-1=10.0.0.31 --mirror ./mirror plans/prod
  nodejoin init --sandbox demo        simulated machines and a simulated cluster`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{c, errors.New("give one folder at most")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return i.run(c, planArg(args)) },
	}
	f := c.Flags()
	for _, q := range i.Questions() {
		f.StringVar(q.Value, q.Flag, "", q.Help)
	}
	f.StringArrayVar(&i.hosts.windows, "host", nil, "a Windows machine, `name=address`; may be repeated")
	f.StringArrayVar(&i.hosts.linux, "linux-host", nil, "a Linux machine, `name=address`; may be repeated")
	f.BoolVar(&i.Sandbox, "sandbox", false, "simulated machines and a simulated cluster, in folders beside the plan")
	return c
}

func (i *initializer) run(c *cobra.Command, folder string) error {
	if err := firstplan.RequireNone(folder); err != nil {
		return err
	}
	if err := i.answer(c); err != nil {
		return err
	}
	text, err := i.Plan(folder)
	if err != nil {
		return err
	}
	name := filepath.Join(folder, i.Name+plan.Suffix)
	src, diags := plan.Format(name, text)
	if diags.HasErrors() {
		return fmt.Errorf("the answers do not make a plan: %w", diags)
	}
	if err := i.validate(name, src); err != nil {
		return err
	}
	if err := firstplan.Create(name, src); err != nil {
		return err
	}
	i.term.Say("Wrote %s.", ui.CleanLine(name))
	return i.lock(c.Context(), folder)
}

// lock writes the lock of the new plan where its artifacts are in a mirror, and says what comes next.
func (i *initializer) lock(ctx context.Context, folder string) error {
	if i.Mirror != "" {
		x := &lockCommand{app: i.app}
		p, _, err := x.lockedPlan(ctx, []string{folder})
		if err != nil {
			return err
		}
		now, diags := x.read(ctx, p)
		if !diags.HasErrors() { // else a sandbox lacks some for now
			if err := atomicfile.Write(p.LockFile, now.Format(), 0o644); err != nil {
				return fmt.Errorf("writing the lock: %w", err)
			}
			i.term.Say("Wrote %s, which has the digests of the artifacts in the mirror.", ui.CleanLine(p.LockFile))
			i.term.Say("Next: nodejoin validate %s, then plan and apply.", ui.CleanLine(folder))
			return nil
		}
	}
	i.term.Say("Next: nodejoin lock %s, which notes the digests of what it installs; then validate, plan and apply.",
		ui.CleanLine(folder))
	return nil
}

// validate compiles the plan before it is written, and prints its diagnostics.
func (i *initializer) validate(name string, src []byte) error {
	opt := plan.Options{Text: src, Vars: map[string]string{}, Env: lookupEnv, Version: version, Agent: anyAgent,
		Self: anyAgent, Locking: true}
	p, diags := plan.Load(name, opt)
	if p != nil && !diags.HasErrors() {
		_, more := p.Compile()
		diags = append(diags, more...)
	}
	i.problems(ui.FromHCL(diags), p.Files())
	if diags.HasErrors() {
		fmt.Fprintln(i.term.Err, ui.Wrap("Nothing was written: the plan would not be valid with these answers.", "",
			i.term.Width()))
		return exitError(exitInvalid)
	}
	return nil
}

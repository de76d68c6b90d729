package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/locker"
	"nodejoin/cmd/nodejoin/internal/modules"
	"nodejoin/cmd/nodejoin/internal/program"
	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
)

// lockCommand is one run of lock.
type lockCommand struct {
	*app
	check, upgrade, images bool
}

func newLock(a *app) *cobra.Command {
	x := &lockCommand{app: a}
	c := &cobra.Command{
		Use:   "lock [PLAN]",
		Short: "Note the digests of all that a plan installs",
		Long: `Reads every artifact of the plan, for every operating system and architecture of its nodes,
and writes nodejoin.lock.hcl beside the plan: version, address, size, digest and how it was
verified. Every command that reads the plan takes the digests from there and refuses a lock
that does not fit the plan; 'nodejoin validate' does so without a network. A digest that the
plan itself gives must agree. Keep the lock in version control.

The artifacts are read from where the nodes get them, by the proxy and the certificate
authorities of this machine. What its publisher signs is verified by that signature, which the lock
then carries, so that every command verifies it again without a network; what its publisher has
a checksum file for, or the plan names one with the argument checksum, is compared with that. Of
the rest the lock says that nobody verified it; a verify block in the plan refuses that. What is
locked already must still have the same bytes; --upgrade takes what is there now. A lock is
written completely or not at all.

A module from elsewhere of which the plan gives no digest is locked, too.

With --images the lock has the container images of the plan, too: those of the pods' sandboxes
(pause) and of its manifests. They are read from their registries, with the logins of docker on this
machine. A lock that has images keeps them up to date from then on.

The exit code is 0 if all is done, 1 if an artifact cannot be read or has changed, 2 with
--check if the lock is not up to date, and 3 if the plan is not valid.`,
		Example: `  nodejoin lock plans/prod             write the lock, and show what changes
  nodejoin lock --images plans/prod    lock the container images, too
  nodejoin lock --check plans/prod     change nothing (for CI)`,
		RunE: x.run,
	}
	a.planFlags(c)
	c.Flags().BoolVar(&x.check, "check", false, "write nothing; exit with 2 if the lock is not up to date")
	c.Flags().BoolVar(&x.images, "images", false, "lock the container images of the plan, too")
	c.Flags().BoolVar(&x.upgrade, "upgrade", false,
		"take what is there now, also where it has changed since it was locked")
	return c
}

func (x *lockCommand) run(c *cobra.Command, args []string) error {
	p, files, err := x.lockedPlan(c.Context(), args)
	if err != nil {
		return err
	}
	if n := len(p.Artifacts); n > 0 {
		x.term.Say("Reading %d %s.", n, plural(n, "artifact"))
	}
	now, diags := x.read(c.Context(), p)
	if c.Context().Err() != nil {
		return exitError(exitInterrupted)
	}
	if !diags.HasErrors() {
		diags = p.Unverified(now)
	}
	if diags.HasErrors() {
		x.problems(ui.FromHCL(diags), files)
		return exitError(exitFailed)
	}
	return x.finish(p, now)
}

// read makes the lock of a plan.
func (x *lockCommand) read(ctx context.Context, p *plan.Compiled) (*lock.File, hcl.Diagnostics) {
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	l := &locker.Locker{Open: store.Open, Post: store.Post, Upgrade: x.upgrade}
	if x.images || p.Lock != nil && len(p.Lock.Images) > 0 {
		l.Images = (&registry.Client{Transport: store.Transport()}).Images
	}
	return l.Lock(steps.WithLogins(ctx, p.Logins), p)
}

// lockedPlan reads a plan whose lock need not fit it.
func (x *lockCommand) lockedPlan(ctx context.Context, args []string) (*plan.Compiled, map[string]*hcl.File, error) {
	vars, err := x.variables()
	if err != nil {
		return nil, nil, err
	}
	opt := modules.Options{Notice: x.term.Notice}
	p, diags := plan.Load(planArg(args), plan.Options{Vars: vars, VarFiles: x.varFiles,
		Environment: x.environment, Env: x.lookupEnv,
		Agent: anyAgent, Self: anyAgent, Version: version, Locking: true, Program: program.Runner(ctx),
		Module: modules.Reader(ctx, opt), ModuleDigest: locker.ModuleDigest(modules.Digest(ctx, opt), x.upgrade)})
	var compiled *plan.Compiled
	if !diags.HasErrors() {
		var more hcl.Diagnostics
		compiled, more = p.Compile()
		diags = append(diags, more...)
	}
	x.problems(ui.FromHCL(diags), p.Files())
	if diags.HasErrors() {
		return nil, nil, exitError(exitInvalid)
	}
	return compiled, p.Files(), nil
}

// finish shows what changes and writes the lock.
func (x *lockCommand) finish(p *plan.Compiled, now *lock.File) error {
	changes := locker.Changes(p.Lock, now)
	locker.Write(x.term.Out, changes, ui.CleanLine)
	name := ui.CleanLine(filepath.Base(p.LockFile))
	switch {
	case len(changes) == 0 && (p.Lock != nil || len(now.Entries)+len(now.Modules) == 0):
		x.term.Say("No changes: %s, all as locked.", locker.Counted(now))
		x.unverified(now)
		return nil
	case x.check:
		x.term.Say("%s is not up to date; 'nodejoin lock' writes it.", name)
		return exitError(exitPending)
	}
	if err := atomicfile.Write(p.LockFile, now.Format(), 0o644); err != nil {
		x.problems([]ui.Problem{locker.Unwritten(err)}, nil)
		return exitError(exitFailed)
	}
	x.term.Say("Wrote %s: %s. Review it, and keep it in version control.", name, locker.Counted(now))
	x.unverified(now)
	return nil
}

// unverified names the artifacts for whose digest nobody vouches.
func (x *lockCommand) unverified(now *lock.File) {
	var names []string
	for _, e := range now.Entries {
		if e.Verified == lock.None {
			names = append(names, ui.CleanLine(e.Name+" for "+e.Platform))
		}
	}
	if len(names) > 0 {
		x.term.Say("Not verified, because neither a checksum file nor the plan has a digest: %s.", strings.Join(names, ", "))
	}
}

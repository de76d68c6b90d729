package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/cmd/nodejoin/internal/ui"
)

// openBundle unpacks the bundle that the plan is in, once in this process.
func (a *app) openBundle(ctx context.Context, path string) error {
	if a.bundle != nil {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	b, err := planbundle.Open(ctx, path, filepath.Join(cache, "nodejoin", "bundles"), a.term.Notice)
	if err == nil {
		err = a.useBundle(b)
	}
	return a.bundleFailed(ctx, err)
}

// useBundle reads the plan from a bundle from now on.
func (a *app) useBundle(b *planbundle.Opened) error {
	if err := b.Fits(version); err != nil {
		return err
	}
	a.bundle, a.agent, a.environment = b, b.Agent, cmp.Or(a.environment, b.Environment)
	return nil
}

// bundleFailed reports why a bundle cannot be used or written.
func (a *app) bundleFailed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exitError(exitInterrupted)
	}
	p, ok := planbundle.Problem(err)
	if !ok {
		return err
	}
	a.problems([]ui.Problem{p}, nil)
	return exitError(exitFailed)
}

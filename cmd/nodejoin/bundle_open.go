package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		err = a.useBundle(path, b)
	}
	return a.bundleFailed(ctx, err)
}

// useBundle reads the plan from a bundle from now on.
func (a *app) useBundle(path string, b *planbundle.Opened) error {
	if b.Version != version {
		return fmt.Errorf("%s was made by nodejoin %s, and this is %s; use the nodejoin in it: tar -xOf %s %s > nodejoin",
			ui.CleanLine(path), ui.CleanLine(b.Version), version, ui.CleanLine(path), b.Program())
	}
	a.bundle, a.environment = b, cmp.Or(a.environment, b.Environment)
	a.agent = func(_ context.Context, goos, arch string) (path, sum string, err error) {
		path, sum, ok := b.Agent(goos, arch)
		if !ok {
			err = errors.New("the bundle does not have it")
		}
		return path, sum, err
	}
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

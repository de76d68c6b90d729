package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/mirror"
	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
)

// mirrorCommand is one run of mirror.
type mirrorCommand struct {
	*app
	to       string
	check    bool
	parallel int

	fetched int
	meter   mirror.Meter
}

func newMirror(a *app) *cobra.Command {
	x := &mirrorCommand{app: a}
	c := &cobra.Command{
		Use:   "mirror [PLAN] --to FOLDER",
		Short: "Fill a folder or a registry with all that a plan installs",
		Long: `Reads what the nodes of the plan install and writes it into a folder, under the names that
a mirror block expects: mirror { path = "FOLDER" } for nodejoin to send, or
mirror { url = "https://..." } where a web server has the folder. The plan needs a lock, whose
digests decide what is taken; neither where the files come from nor the folder is trusted.

With --to oci://REGISTRY/REPOSITORY it writes into a container registry, with the login of docker
on this machine, for mirror { url = "oci://REGISTRY/REPOSITORY" }: each file is an OCI artifact
whose tag is its name.

What is there and right is not read again, and in a folder a file that was cut continues where it
ended.
Files are read in parallel, by the proxy and the certificate authorities of this machine.

The exit code is 0 if all is there, 1 if something cannot be read or is not what is locked,
2 with --check if the mirror is not complete, and 3 if the plan is not valid.`,
		Example: `  nodejoin mirror plans/prod --to plans/prod/mirror
  nodejoin mirror plans/prod --to /srv/www/nodejoin --check     change nothing (for CI)
  nodejoin mirror plans/prod --to oci://registry.example/nodejoin`,
		RunE: x.run,
	}
	a.planFlags(c)
	f := c.Flags()
	f.StringVar(&x.to, "to", "", "`folder` of the mirror, or oci://REGISTRY/REPOSITORY")
	f.BoolVar(&x.check, "check", false, "write nothing; exit with 2 if the mirror is not complete")
	f.IntVar(&x.parallel, "parallel", 4, "files that are read at once, 1 to 32")
	return c
}

func (x *mirrorCommand) run(c *cobra.Command, args []string) error {
	switch {
	case x.to == "":
		return usageError{c, errors.New("--to is missing: the folder of the mirror")}
	case x.parallel < 1 || x.parallel > 32:
		return usageError{c, errors.New("--parallel must be from 1 to 32")}
	}
	p, err := x.loadLocked(c.Context(), args)
	if err != nil {
		return err
	}
	items, others := mirror.Items(p)
	if len(others) > 0 {
		x.term.Say("Not for a mirror, because the plan says where they come from: %s.",
			ui.CleanLine(strings.Join(others, ", ")))
	}
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	to, err := x.target(store)
	if err != nil {
		return err
	}
	ctx := steps.WithLogins(c.Context(), p.Logins)
	if x.check {
		return x.compare(ctx, to, items)
	}
	return x.fill(ctx, to, items)
}

// target is the mirror that --to names.
func (x *mirrorCommand) target(store *artifact.Store) (mirror.Target, error) {
	report := &mirror.Report{Fetched: func(it mirror.Item) {
		x.fetched++
		x.term.Say("Wrote %s (%s for %s, %d bytes).", ui.CleanLine(it.File), it.Name, it.Platform, it.Size)
	}, Progress: func(n int64) {
		if x.meter.Add(n) {
			x.term.Notice(x.meter.String() + " read.")
		}
	}}
	address, is := strings.CutPrefix(x.to, artifact.OCIScheme)
	if !is {
		return &mirror.Folder{Path: x.to, OpenAt: store.OpenAt, Parallel: x.parallel, Report: report}, nil
	}
	repo, err := (&registry.Client{Transport: store.Transport()}).Repository(address)
	return &mirror.Registry{Repository: repo, OpenAt: store.OpenAt, Parallel: x.parallel, Report: report}, err
}

// compare reports what a mirror lacks.
func (x *mirrorCommand) compare(ctx context.Context, f mirror.Target, items []mirror.Item) error {
	bad := 0
	for _, it := range items {
		state, err := f.Check(ctx, it)
		switch {
		case ctx.Err() != nil:
			return exitError(exitInterrupted)
		case err != nil:
			x.problems([]ui.Problem{mirror.Unchecked(it, err)}, nil)
			return exitError(exitFailed)
		case state == mirror.There:
			continue
		}
		bad++
		what := map[mirror.State]string{mirror.Missing: "missing", mirror.Wrong: "not what is locked"}[state]
		x.term.Say("%s (%s for %s): %s", ui.CleanLine(it.File), it.Name, it.Platform, what)
	}
	if bad > 0 {
		x.term.Say("%d of %d files are not there; 'nodejoin mirror' without --check reads them.", bad, len(items))
		return exitError(exitPending)
	}
	x.term.Say("Complete: %d files, all as locked.", len(items))
	return nil
}

// fill reads what a mirror lacks.
func (x *mirrorCommand) fill(ctx context.Context, f mirror.Target, items []mirror.Item) error {
	err := f.Fill(ctx, items)
	switch {
	case ctx.Err() != nil:
		return exitError(exitInterrupted)
	case err != nil:
		x.problems(mirror.Problems(err), nil)
		return exitError(exitFailed)
	}
	x.term.Say("Complete: %d files, %d of them new.", len(items), x.fetched)
	return nil
}

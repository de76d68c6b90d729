package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/mirror"
	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/cmd/nodejoin/internal/pull"
	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
)

// bundleCommand is one run of bundle.
type bundleCommand struct {
	*app
	out, check, bill string
	split            planbundle.Size
	noImages         bool
	signing          pull.Signing
	checking         pull.Checking

	meter mirror.Meter
}

func newBundle(a *app) *cobra.Command {
	x := &bundleCommand{app: a}
	c := &cobra.Command{
		Use:   "bundle [PLAN] -o FILE.tar",
		Short: "Pack a plan with all that it installs into one file",
		Long: `Packs into one file what a site without internet access needs: the plan with its lock,
modules and templates, the artifacts and container images that the lock names, the agents for
the hosts, and nodejoin itself. Every command that takes a plan takes the file in its place:
'nodejoin apply FILE.tar' reaches the hosts and the API server, and nothing else.

The file is an OCI image layout. The same plan gives the same bytes. It appears when it is
complete, and an interrupted run is continued by the next. Give --split the size of the media
for FILE.tar.001, FILE.tar.002 and so on, which are read together.

Keys, kubeconfigs, --var and --var-file are not in it: give them where it is used. Relative
paths to them start from its folder there. Files of values beside the plan are in it, so that
only this user may read the file.

The lock must have the images ('nodejoin lock --images'), which are read from their registries
with the logins of docker on this machine.

--sbom writes the bill of materials alone (SPDX, JSON): the artifacts and images of each node. A
bundle has it, too.

--check FILE.tar verifies a bundle: all digests, and that it has all that its lock demands. With
--signers or --sigstore, its release must be signed by somebody whom these files trust, too.

--sign KEY writes FILE.tar.release beside the bundle, which 'nodejoin follow' takes on the nodes:
the bundle's digest and a serial number, signed by a key of SSH. --to-sign writes the same text into
FILE.tar.release.json, not signed, for 'cosign sign-blob'. FILE.tar.release is then the bundle that
cosign writes, with this text behind it.

The exit code is 0 if all is well, 1 if something cannot be read or is damaged, and 3 if the plan
is not valid.`,
		Example: `  nodejoin bundle plans/prod -o prod.tar
  nodejoin bundle plans/prod -o prod.tar --split 4GB    for media of this size
  nodejoin bundle plans/prod -o prod.tar --sign ~/.ssh/id_ed25519
  nodejoin bundle --check prod.tar --signers allowed_signers`,
		RunE: x.run,
	}
	a.planFlags(c)
	f := c.Flags()
	f.StringVarP(&x.out, "out", "o", "", "`file` of the bundle")
	f.Var(&x.split, "split", "largest `size` of a file, for example 650MB or 4GB; default one file")
	f.StringVar(&x.check, "check", "", "verify the bundle in `file`")
	f.StringVar(&x.bill, "sbom", "", "only write what each node gets, as SPDX in JSON, into `file`; PLAN may be a bundle")
	pull.SigningFlags(f, &x.signing, &x.checking)
	f.BoolVar(&x.noImages, "no-images", false, "leave out the container images: the hosts have a registry")
	return c
}

func (x *bundleCommand) run(c *cobra.Command, args []string) error {
	x.note, x.followLogin = map[string]bool{}, &steps.Login{} // a bundle has none
	switch {
	case x.check != "" && (x.out != "" || len(args) > 0 || x.signing.Key != "" || x.signing.ToSign):
		return usageError{c, errors.New("--check takes the bundle, --signers, --sigstore and nothing else")}
	case x.check != "":
		return x.verify(c.Context())
	case x.bill != "":
		return x.writeBill(c.Context(), args)
	case x.out == "":
		return usageError{c, errors.New("-o is missing: the file of the bundle")}
	}
	if err := x.signing.Check(x.split > 0, x.checking, x.out); err != nil {
		return usageError{c, err}
	}
	if err := x.signing.Open(c.Context()); err != nil {
		return err
	}
	p, files, err := x.read(c.Context(), args)
	if err != nil {
		return err
	}
	return x.bundleFailed(c.Context(), x.write(c.Context(), args, p, files))
}

// writeBill writes what each node gets.
func (x *bundleCommand) writeBill(ctx context.Context, args []string) error {
	p, err := x.loadLocked(ctx, args)
	if err != nil {
		return err
	}
	return planbundle.WriteBill(x.bill, p, version)
}

// read compiles the plan, once to see which files it has, and once as from a bundle.
func (x *bundleCommand) read(ctx context.Context, args []string) (*plan.Compiled, []string, error) {
	if planbundle.Is(planArg(args)) {
		return nil, nil, fmt.Errorf("%s is a bundle already", ui.CleanLine(planArg(args)))
	}
	p, err := x.loadLocked(ctx, args)
	if err != nil {
		return nil, nil, err
	}
	if !x.noImages && len(p.Lock.Images) == 0 && p.Cluster != nil {
		return nil, nil, fmt.Errorf("the lock has no container images; run 'nodejoin lock --images %s', "+
			"or give --no-images where the hosts have a registry", ui.CleanLine(planArg(args)))
	}
	if x.noImages {
		p.Lock.Images = nil
	}
	files := slices.Sorted(maps.Keys(x.note))
	path, opt, err := x.planAt(ctx, args)
	if err != nil {
		return nil, nil, err
	}
	if diags, texts := planbundle.Contained(path, opt, files, p.Lock); diags.HasErrors() {
		x.problems(ui.FromHCL(diags), texts)
		return nil, nil, exitError(exitInvalid)
	}
	return p, files, nil
}

// write collects what the bundle has, and writes it.
func (x *bundleCommand) write(ctx context.Context, args []string, p *plan.Compiled, files []string) error {
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	spool, done, err := planbundle.Spool(x.out)
	if err != nil {
		return err
	}
	defer done()
	contents, err := (&planbundle.Collector{Plan: p, Path: planArg(args), Files: files, Version: version,
		Registry: &registry.Client{Transport: store.Transport()}, Open: store.Open, OpenAt: store.OpenAt,
		Spool: spool}).Collect(steps.WithLogins(ctx, p.Logins))
	if err != nil {
		return err
	}
	w := &planbundle.Writer{Split: int64(x.split), Progress: func(n int64) {
		if x.meter.Add(n) {
			x.term.Notice(x.meter.String() + " written.")
		}
	}}
	sum, err := w.Write(ctx, x.out, contents)
	if err != nil {
		return err
	}
	x.term.Say("Wrote %s: %s. Its digest is %s.", ui.CleanLine(x.out), contents, sum)
	return x.signing.Sign(x.out, x.term.Say)
}

// verify checks a bundle, and compiles its plan from it.
func (x *bundleCommand) verify(ctx context.Context) error {
	dir, done, err := planbundle.Temp()
	if err != nil {
		return err
	}
	defer done()
	b, err := planbundle.Check(ctx, x.check, dir)
	if err == nil {
		err = x.useBundle(b)
	}
	if err != nil {
		return x.bundleFailed(ctx, err)
	}
	if _, err := x.load(ctx, []string{x.check}); err != nil {
		return err
	}
	if err := x.checking.Check(x.check, x.term.Say); err != nil {
		return x.failed(err)
	}
	x.term.Say("Complete: %s. Its digest is %s.", b, b.Sum)
	return nil
}

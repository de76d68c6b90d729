package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/saved"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// savePlan saves the plan and what its check found. The report must have no errors.
func (a *app) savePlan(ctx context.Context, name string, args []string, c *plan.Compiled, r *engine.Report) error {
	p, err := a.describe(ctx, args, c, r)
	if err != nil {
		return err
	}
	// Only a saved plan is overwritten: another file may be named by mistake.
	switch b, err := saved.ReadFile(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if _, err := saved.Decode(b); errors.Is(err, saved.ErrNotSaved) {
			return fmt.Errorf("--out %s: the file exists and is not a saved plan; name another, or remove it", name)
		}
	}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(name, b, 0o600); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	if !a.json {
		fmt.Fprintf(a.term.Out, "Saved. To apply exactly this: nodejoin apply %s\n", ui.CleanLine(name))
	}
	return nil
}

// describe is the plan as it is saved. r is nil before its hosts were checked.
func (a *app) describe(ctx context.Context, args []string, c *plan.Compiled, r *engine.Report) (*saved.Plan, error) {
	path, opt, err := a.planAt(ctx, args)
	if err != nil {
		return nil, err
	}
	p, diags := plan.Load(path, opt)
	if diags.HasErrors() {
		return nil, fmt.Errorf("the plan changed while it was read: %w", diags)
	}
	in := saved.Inputs{Vars: map[string]string{}, Targets: a.targets, Skips: a.skips, Shard: a.shard.String(),
		Environment: a.environment}
	if in.Path, err = filepath.Abs(planArg(args)); err != nil {
		return nil, err
	}
	for _, f := range a.varFiles {
		abs, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		in.VarFiles = append(in.VarFiles, abs)
	}
	for name, value := range opt.Vars {
		if p.Sensitive(name) {
			in.Secret = append(in.Secret, name)
		} else {
			in.Vars[name] = value
		}
	}
	slices.Sort(in.Secret)
	var files []saved.File
	for name, f := range p.Files() {
		if plan.IsFile(name) { // files of values may have secrets
			files = append(files, saved.File{Name: filepath.Base(name), SHA256: saved.Digest(f.Bytes)})
		}
	}
	var hosts []saved.Host
	var objects []string
	if r != nil {
		for _, o := range r.Objects {
			if o.Left == "" {
				objects = append(objects, o.String())
			}
		}
		for _, h := range r.Hosts {
			var results []steps.Result
			for _, s := range h.Steps {
				results = append(results, s.Result)
			}
			hosts = append(hosts, saved.Host{Facts: h.Facts, Results: results, Removals: removalsOf(h)})
		}
	}
	return saved.Make(version, in, files, c, hosts, objects)
}

// removalsOf is what a node is to lose, as it is saved.
func removalsOf(h engine.HostReport) (out []string) {
	for _, r := range h.Removals.Removing() {
		out = append(out, r.Key.String())
	}
	for _, n := range h.Moved {
		out = append(out, "Node "+n.Name)
	}
	return out
}

// openSaved opens the argument of apply if it is a saved plan: it sets the flags that the
// plan was made with, and returns the plan's path in place of the argument. If the
// argument is not a saved plan, the first result is nil.
func (a *app) openSaved(c *cobra.Command, args []string) (*saved.Plan, []string, error) {
	if a.resumed != nil {
		return a.resumed.Saved, a.takeOver(a.resumed.Saved), nil
	}
	if len(args) != 1 || strings.HasSuffix(args[0], plan.Suffix) || planbundle.Is(args[0]) {
		return nil, args, nil
	}
	if fi, err := os.Stat(args[0]); err != nil || fi.IsDir() {
		return nil, args, nil //nolint:nilerr // load reports the error
	}
	b, err := saved.ReadFile(args[0])
	if err != nil {
		return nil, nil, err
	}
	p, err := saved.Decode(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", args[0], err)
	}
	if p.Shard != "" {
		if err := a.shard.Set(p.Shard); err != nil {
			return nil, nil, fmt.Errorf("%s: shard %q: %w", args[0], p.Shard, err)
		}
	}
	for _, f := range []string{"target", "skip", "shard", "var-file", "env"} {
		if c.Flags().Changed(f) {
			return nil, nil, fmt.Errorf("--%s: %s was saved with other flags; run plan again to change them", f, args[0])
		}
	}
	given, err := a.variables()
	if err != nil {
		return nil, nil, err
	}
	for name := range given {
		if !slices.Contains(p.Secret, name) {
			return nil, nil, fmt.Errorf("--var %s: %s has its own values; give only its sensitive variables", name, args[0])
		}
	}
	for _, name := range p.Secret {
		if _, ok := given[name]; !ok {
			return nil, nil, fmt.Errorf("%s was planned with --var %s=..., which is sensitive, so not in the file; repeat it",
				args[0], name)
		}
	}
	return p, a.takeOver(p), nil
}

// takeOver sets the flags that a plan was made with. It returns the plan's path, as an argument.
func (a *app) takeOver(p *saved.Plan) []string {
	for name, value := range p.Vars {
		a.vars = append(a.vars, name+"="+value)
	}
	a.varFiles, a.targets, a.skips, a.environment = p.VarFiles, p.Targets, p.Skips, p.Environment
	return []string{p.Path}
}

// sameInputs refuses a saved plan that no longer matches its plan. p may be nil.
func (a *app) sameInputs(ctx context.Context, p *saved.Plan, args []string, c *plan.Compiled) error {
	if p == nil {
		return nil
	}
	now, err := a.describe(ctx, args, c, nil)
	if err != nil {
		return err
	}
	return saved.Stale("the plan has changed since it was saved", p.InputChanges(now))
}

// sameHosts refuses a saved plan whose hosts have changed since, or could not all be
// checked. p may be nil.
func (a *app) sameHosts(ctx context.Context, p *saved.Plan, args []string, c *plan.Compiled, r *engine.Report) error {
	if p == nil || a.resumed != nil { // a resumed run continues on a host that it has changed
		return nil
	}
	if code := reportCode(r); code != exitOK {
		return exitError(code)
	}
	now, err := a.describe(ctx, args, c, r)
	if err != nil {
		return err
	}
	return saved.Stale("the hosts have changed since the plan was saved", p.HostChanges(now))
}

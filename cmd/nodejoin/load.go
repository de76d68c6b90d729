package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

var errOnePlan = errors.New("one plan at a time: a folder with *.join.hcl files, or one such file")

// load reads and compiles the plan that the arguments name (default: this folder).
// Diagnostics are printed; an invalid plan is exitInvalid.
func (a *app) load(ctx context.Context, args []string) (*plan.Compiled, error) {
	c, diags, files, err := a.compile(ctx, args)
	if err != nil {
		return nil, err
	}
	a.problems(ui.FromHCL(diags), files)
	if diags.HasErrors() {
		return nil, exitError(exitInvalid)
	}
	if err := a.target(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (a *app) compile(ctx context.Context, args []string) (*plan.Compiled, hcl.Diagnostics, map[string]*hcl.File, error) {
	path := "."
	if len(args) > 0 {
		path = args[0]
	}
	vars := map[string]string{}
	for _, v := range a.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, nil, nil, fmt.Errorf("--var %s: it must be name=value", v)
		}
		vars[name] = value
	}
	p, diags := plan.Load(path, plan.Options{Vars: vars, VarFiles: a.varFiles, Env: os.LookupEnv, Agent: agentSource(ctx), Version: version})
	if p == nil {
		return nil, diags, nil, nil
	}
	var c *plan.Compiled
	if !diags.HasErrors() {
		var more hcl.Diagnostics
		c, more = p.Compile()
		diags = append(diags, more...)
	}
	return c, diags, p.Files(), nil
}

// problems prints diagnostics and failures on standard error.
func (a *app) problems(ps []ui.Problem, files map[string]*hcl.File) {
	for _, p := range ps {
		ui.WriteProblem(a.term.Err, p, files, a.term.ErrColor, min(a.term.Width(), 100))
	}
}

// target keeps the nodes that --target names.
func (a *app) target(c *plan.Compiled) error {
	if len(a.targets) == 0 {
		return nil
	}
	var keep []plan.Node
	for _, t := range a.targets {
		i := slices.IndexFunc(c.Nodes, func(n plan.Node) bool { return n.Address == t || n.Name == t || strings.HasPrefix(n.Address, t+"[") })
		if i < 0 {
			var have []string
			for _, n := range c.Nodes {
				have = append(have, n.Address)
			}
			return fmt.Errorf("--target %s: the plan has no such node; it has %s", t, strings.Join(have, ", "))
		}
		for _, n := range c.Nodes {
			if (n.Address == t || n.Name == t || strings.HasPrefix(n.Address, t+"[")) && !slices.ContainsFunc(keep, func(k plan.Node) bool { return k.Name == n.Name }) {
				keep = append(keep, n)
			}
		}
	}
	c.Nodes = keep
	return nil
}

// printJSON writes v indented on standard output.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.term.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

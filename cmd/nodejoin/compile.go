package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/modules"
	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/cmd/nodejoin/internal/program"
	"nodejoin/cmd/nodejoin/internal/thrift"
	"nodejoin/plan"
	"nodejoin/steps"
)

var errOnePlan = errors.New("give one plan: a folder with *.join.hcl files, or one such file")

// planArg is the plan that the arguments name; the default is this folder.
func planArg(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// namedPlan is the plan's path, or the name of the current folder.
func namedPlan(args []string) string {
	name := planArg(args)
	if path, err := planPath(args); err == nil && name == "." {
		name = filepath.Base(path)
	}
	return name
}

// planName is the plan's path, or the name of the current folder, with the environment.
func (a *app) planName(args []string) string {
	name := namedPlan(args)
	if a.environment != "" {
		name += " (environment " + a.environment + ")"
	}
	return name
}

// compile reads and compiles the plan that the arguments name. It returns the plan's
// files for its diagnostics; with an error in these, the first result is nil.
func (a *app) compile(ctx context.Context, args []string) (
	*plan.Compiled, hcl.Diagnostics, map[string]*hcl.File, error,
) {
	path, opt, err := a.planAt(ctx, args)
	if err != nil {
		return nil, nil, nil, err
	}
	defer thrift.Off()()
	p, diags := plan.Load(path, opt)
	if p == nil {
		return nil, diags, nil, nil
	}
	var c *plan.Compiled
	if !diags.HasErrors() {
		var more hcl.Diagnostics
		c, more = p.Compile()
		diags = append(diags, more...)
	}
	if a.noAgent != nil { // the plan is not to blame
		return nil, nil, nil, a.failed(a.noAgent)
	}
	return c, diags, p.Files(), nil
}

// planAt is the path of the plan that the arguments name, and what it is read with. A bundle is unpacked for that.
func (a *app) planAt(ctx context.Context, args []string) (path string, opt plan.Options, err error) {
	vars, err := a.variables()
	if err != nil {
		return "", opt, err
	}
	opt = plan.Options{Vars: vars, VarFiles: a.varFiles, Env: a.lookupEnv, Untrusted: a.untrusted,
		Unvalued: a.unvalued, Version: version, Offline: a.offline, Program: program.Runner(ctx),
		Agent: a.findAgent(connect.Agent(ctx, a.agent, a.term.Notice)), Self: connect.Self(), FollowLogin: a.followLogin}
	if a.note != nil {
		opt.Note = func(file string) { a.note[file] = true }
	}
	path = planArg(args)
	if planbundle.Is(path) {
		if err := a.openBundle(ctx, path); err != nil {
			return "", opt, err
		}
		path, opt.Bundle, opt.Offline = a.bundle.PlanPath(), a.bundle.Bundle(), true
		opt.Self = a.bundle.Self(opt.Self)
	}
	opt.Environment = a.environment
	opt.Module = modules.Reader(ctx, modules.Options{Offline: opt.Offline, Bundled: a.bundle.Module,
		Notice: a.term.Notice})
	return path, opt, nil
}

// agentFinder is plan.Options.Agent.
type agentFinder = func(os, arch, connection string) (steps.Source, error)

// findAgent finds agents for a plan, and notes an error that is about this machine.
func (a *app) findAgent(find agentFinder) agentFinder {
	return func(os, arch, connection string) (steps.Source, error) {
		src, err := find(os, arch, connection)
		if errors.As(err, new(*steps.Error)) {
			a.noAgent = err
		}
		return src, err
	}
}

// anyAgent stands for the agents, and for nodejoin, of a plan that is only compiled: building a real one
// takes long.
func anyAgent(string, string, string) (steps.Source, error) {
	return steps.Source{File: "agent", SHA256: strings.Repeat("0", 64)}, nil
}

// lookupEnv looks up the environment of this process.
var lookupEnv = os.LookupEnv

// lookupEnv looks up the environment that plans are read with.
func (a *app) lookupEnv(name string) (string, bool) {
	if a.env != nil {
		return a.env(name)
	}
	return lookupEnv(name)
}

// variables are the values of --var.
func (a *app) variables() (map[string]string, error) {
	vars := map[string]string{}
	for _, v := range a.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, fmt.Errorf("--var %s: it must be name=value", v)
		}
		vars[name] = value
	}
	return vars, nil
}

// planPath is the absolute folder of the plan that the arguments name.
func planPath(args []string) (string, error) {
	path := planArg(args)
	if strings.HasSuffix(path, plan.Suffix) {
		path = filepath.Dir(path)
	}
	return filepath.Abs(path)
}

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/bundle"
	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/collect"
	"nodejoin/steps/engine"
)

// bundleRuns is how many of the last runs a bundle has.
const bundleRuns = 3

// bugReport is the bundle of one run of logs.
type bugReport struct {
	*bundle.Bundle
}

// newBundle starts with what this computer has: the plan, versions, the last runs.
func (a *app) newBundle(args []string, c *plan.Compiled, now time.Time) (*bugReport, error) {
	path := planArg(args)
	vars, err := a.variables()
	if err != nil {
		return nil, err
	}
	p, diags := plan.Load(path, plan.Options{Vars: vars, VarFiles: a.varFiles, Environment: a.environment,
		Env: lookupEnv, Version: version})
	if diags.HasErrors() {
		return nil, fmt.Errorf("the plan was changed while it was read: %w", diags)
	}
	b := &bugReport{bundle.New(knownSecrets(p, vars, c))}
	b.Add("about.txt", about(c, now))
	for _, name := range slices.Sorted(maps.Keys(p.Files())) {
		if plan.IsFile(name) { // files of values may hold secrets
			b.Add("plan/"+filepath.Base(name), string(p.Shown(name)))
		}
	}
	b.runs(a.planRuns(args))
	return b, nil
}

// knownSecrets are the sensitive values that this run knows, by --var, the environment and
// the plan. They are removed from everything.
func knownSecrets(p *plan.Plan, vars map[string]string, c *plan.Compiled) []string {
	var out []string
	for name, value := range vars {
		if p.Sensitive(name) {
			out = append(out, value)
		}
	}
	const fromEnv = "NODEJOIN_VAR_"
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if variable, ok := strings.CutPrefix(name, fromEnv); ok && p.Sensitive(variable) {
			out = append(out, value)
		}
	}
	for _, n := range c.Nodes {
		out = append(out, collect.Secrets(n.Steps)...)
		if s := n.Connection.SSH; s != nil {
			out = append(out, loginSecrets(s.PasswordEnv, s.PassphraseEnv)...)
			if s.Become != nil {
				out = append(out, loginSecrets(s.Become.PasswordEnv)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// loginSecrets are the values of environment variables; a name may be "".
func loginSecrets(names ...string) []string {
	var out []string
	for _, name := range names {
		if value, ok := lookupEnv(name); ok && name != "" {
			out = append(out, value)
		}
	}
	return out
}

// about is the start of a bug report: what the file has, and what a person must add.
func about(c *plan.Compiled, now time.Time) string {
	var s strings.Builder
	fmt.Fprintf(&s, "nodejoin %s on %s/%s, %s\n", version, runtime.GOOS, runtime.GOARCH, now.Format(time.RFC3339))
	if c.Cluster != nil {
		fmt.Fprintf(&s, "cluster %q: Kubernetes %s, pod network %s\n", c.Cluster.Name, c.Cluster.Version, c.Cluster.PodCIDR)
	}
	for _, n := range c.Nodes {
		fmt.Fprintf(&s, "node %s: %s/%s, connection %s\n", n.Name, n.OS, n.Arch, n.Connection.Type)
	}
	s.WriteString(`
In this file:
  plan/                        the plan: versions, network and runtime
  history/                     the last runs
  NODE/facts.json              operating system, build, addresses
  NODE/check.json              every step, checked again
  NODE/cluster/                version of the API server, the Node, its events and pods
  NODE/network/                addresses, routes, open ports, HNS endpoints
  NODE/services/ files/ hns/ firewall/ env/   as they are on the machine
  NODE/runtime/images.json     images of the container runtime
  NODE/events/                 event log of Windows: the service control manager, the node's services
  NODE/logs/                   the ends of the logs
  missing.txt                  what could not be collected, and why

Please add: what you did, what you expected, what happened instead, since when, and what
had changed before. To report a problem of Windows nodes to Kubernetes itself, label the
issue with the comment "/sig windows".
`)
	return s.String()
}

// runs adds the last runs of the plan.
func (b *bugReport) runs(runs []history.Run, err error) {
	if err != nil {
		b.Missing("history", err.Error())
		return
	}
	for _, r := range runs[max(0, len(runs)-bundleRuns):] {
		b.JSON("history/"+r.Head.Holder.Run+".json", jsonout.OfRun(r, runResult(r), true))
	}
}

// planRuns are the recorded runs of the plan, oldest first.
func (a *app) planRuns(args []string) ([]history.Run, error) {
	path, err := planPath(args)
	if err != nil {
		return nil, err
	}
	root, err := history.Root()
	if err != nil {
		return nil, err
	}
	return history.Runs(root, path, a.environment)
}

func (b *bugReport) host(c *plan.Compiled, g engine.Collected) {
	dir := g.Node.Name + "/"
	if g.Err != nil {
		p := ui.ProblemOf(g.Err)
		b.Missing(dir+"the machine", p.Summary+": "+p.Detail)
	}
	if g.Check.Err != nil {
		p := ui.ProblemOf(g.Check.Err)
		b.Missing(dir+"the check of all steps", p.Summary+": "+p.Detail)
	}
	b.JSON(dir+"check.json", jsonout.OfPlan(c, &engine.Report{Hosts: []engine.HostReport{g.Check}}))
	for _, p := range g.Parts {
		b.Part(dir, p)
	}
}

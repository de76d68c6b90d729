package main

import (
	"path/filepath"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// beginRun starts the record of a run that is about to change something. A record that
// cannot be written is a warning; the run goes on.
func (a *app) beginRun(args []string, c *plan.Compiled) {
	if err := a.record(args, c); err != nil {
		a.noRecord(err)
	}
}

func (a *app) record(args []string, c *plan.Compiled) error {
	path, err := planPath(args)
	if err != nil {
		return err
	}
	root, err := history.In(a.notes)
	if err != nil {
		return err
	}
	h := history.Head{Holder: a.holder, Version: version, Plan: path, Digest: a.digest, Nodes: []string{},
		Environment: a.environment}
	if arg := planArg(args); strings.HasSuffix(arg, plan.Suffix) {
		h.File = filepath.Base(arg)
	}
	for _, v := range a.vars {
		name, _, _ := strings.Cut(v, "=")
		h.Vars = append(h.Vars, name)
	}
	for _, file := range a.varFiles {
		h.VarFiles = append(h.VarFiles, filepath.Base(file))
	}
	for _, n := range c.Nodes {
		h.Nodes = append(h.Nodes, n.Name)
	}
	a.run, err = history.Begin(root, h)
	return err
}

// usual is how long steps took in earlier runs of the plan.
func (a *app) usual(args []string) func(host, step string) time.Duration {
	path, err := planPath(args)
	root, rootErr := history.In(a.notes)
	if err != nil || rootErr != nil {
		return func(string, string) time.Duration { return -1 }
	}
	return history.Usual(root, path, a.environment)
}

// endRun ends the record.
func (a *app) endRun(code int, hosts []history.Host) {
	err := a.run.Finish(history.End{ExitCode: code, Hosts: hosts})
	a.run = nil
	if err != nil {
		a.noRecord(err)
	}
}

func (a *app) noRecord(err error) {
	a.problems([]ui.Problem{{Warning: true, Level: "warning", Summary: "this run is not recorded in the history",
		Detail: err.Error()}}, nil)
}

func appliedHosts(sum *engine.Summary) []history.Host {
	out := []history.Host{}
	for _, h := range sum.Hosts {
		out = append(out, history.Host{Node: h.Node, Changed: append([]string{}, h.Changed...), Unchanged: len(h.Unchanged),
			Left: len(h.NotRun), Failed: h.Failed, Error: errorSummary(h.Err)})
	}
	return out
}

func errorSummary(err error) string {
	if err == nil {
		return ""
	}
	return ui.ProblemOf(err).Summary
}

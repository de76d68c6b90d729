package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

func newPlan(a *app) *cobra.Command {
	var detailed, full bool
	var out string
	c := &cobra.Command{
		Use:   "plan [PLAN]",
		Short: "Show what apply would change",
		Long: `Compares the plan with its hosts and shows what apply would change. Nothing is
changed anywhere. With --detailed-exitcode the exit code is 2 when changes are pending.`,
	}
	a.planFlags(c)
	a.runFlags(c)
	a.changeFlags(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when changes are pending, 0 when there are none")
	c.Flags().BoolVar(&full, "full", false, "show the contents of new files and the steps with nothing to do")
	c.Flags().StringVar(&out, "out", "", "save the plan in `file`, for 'nodejoin apply FILE'")
	c.RunE = func(c *cobra.Command, args []string) error {
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		d := a.newDisplay()
		s := engine.New(compiled, a.options(compiled, d.Emit))
		defer s.Close()
		report := s.Check(c.Context())
		d.Close()
		if a.json {
			if err := a.printJSON(planJSON(compiled, report)); err != nil {
				return err
			}
		} else {
			a.showPlan(report, full)
		}
		if code := a.reportProblems(report, findingsAll); code != exitOK {
			return exitError(code)
		}
		if out != "" {
			if err := a.savePlan(out, args, compiled, report); err != nil {
				return err
			}
		}
		if detailed && report.Pending() > 0 {
			return exitError(exitPending)
		}
		return nil
	}
	return c
}

// newDisplay is the display of progress; with --json nothing but failures goes to standard error.
func (a *app) newDisplay() ui.Display {
	mode := a.display
	if a.json {
		mode = "quiet"
	}
	return ui.NewDisplay(mode, a.term)
}

// options of a run. Events come from several hosts at once; sink sees one at a time.
func (a *app) options(p *plan.Compiled, sink func(event.Event)) engine.Options {
	var mu sync.Mutex
	emit := func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		a.run.Emit(e)
		sink(e)
	}
	return engine.Options{Connect: connector(emit), Cluster: clusterOpener(p), Emit: emit, Parallel: a.parallel, Holder: a.holder, Gone: gone, Version: version, PlanDigest: a.digest,
		AllowDowngrade: a.downgrade, Drain: a.drain, Members: a.members, Resume: a.resume}
}

func (a *app) showPlan(r *engine.Report, full bool) {
	if r.Pending() > 0 || full {
		ui.WritePlan(a.term.Out, r, ui.PlanOptions{Color: a.term.OutColor, Width: a.term.Width(), Full: full})
	}
	if r.Pending() == 0 && reportCode(r) == exitOK {
		n := 0
		for _, h := range r.Hosts {
			n += len(h.Steps)
		}
		a.term.Say("Nothing is to change: %d %s, %d %s, all as the plan says.", len(r.Hosts), plural(len(r.Hosts), "host"), n, plural(n, "step"))
	}
	a.showFormer(r)
}

// showFormer tells of the Nodes that the plan joined and names no more.
func (a *app) showFormer(r *engine.Report) {
	for _, n := range r.Former {
		fmt.Fprintf(a.term.Out, "The Node %s (%s) was joined by this plan, which names it no more. 'nodejoin apply --prune' drains it and takes it out of the cluster;\n"+
			"what nodejoin made on its machine goes with 'nodejoin leave' and a plan that still names it.\n", ui.CleanLine(n.Name), ui.CleanLine(formerState(n)))
	}
}

func formerState(n kube.Node) string {
	state := "not Ready"
	if n.Ready {
		state = "Ready"
	}
	if n.InternalIP != "" {
		state += ", " + n.InternalIP
	}
	return state
}

// jsonFormer is a Node that the plan joined and names no more.
type jsonFormer struct {
	Node    string `json:"node"`
	Ready   bool   `json:"ready"`
	Address string `json:"address,omitempty"`
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

// clusterProblem is why the cluster could not be asked; nothing else was tried then.
func clusterProblem(r *engine.Report) ui.Problem {
	p := problemOf(r.Cluster)
	if p.Summary == steps.AsError(errors.New("")).Summary {
		p.Summary = "the cluster cannot be asked"
	}
	return p
}

// reportProblems prints what could not be checked, what was found of the machines,
// and gives the exit code for it.
func (a *app) reportProblems(r *engine.Report, level findingLevel) int {
	if r.Cluster != nil {
		p := clusterProblem(r)
		p.Source = a.clusterAt
		a.problems([]ui.Problem{p}, nil)
		return reportCode(r)
	}
	var ps []ui.Problem
	for _, h := range r.Hosts {
		if h.Err != nil {
			p := problemOf(h.Err)
			p.Host, p.Source = h.Node.Name, h.Node.Connection.Source
			ps = append(ps, p)
		}
		for _, s := range h.Steps {
			ps = append(ps, findingProblems(h, s, level)...)
			if s.Result.Err != nil && !findingsRefuse(s) {
				p := problemOf(s.Result.Err)
				p.Host, p.Step, p.Source = h.Node.Name, s.Spec.ID, s.Spec.Source
				ps = append(ps, p)
			}
		}
	}
	a.problems(ui.Fold(ps), nil)
	return reportCode(r)
}

// jsonStep is a step in the JSON output of plan and status.
type jsonStep struct {
	Address string       `json:"address"`
	Kind    string       `json:"kind"`
	Title   string       `json:"title,omitempty"`
	Source  string       `json:"source,omitempty"`
	Change  steps.Change `json:"change"`
	Error   *steps.Error `json:"error,omitempty"`
}

type jsonHost struct {
	Node         string               `json:"node"`
	Address      string               `json:"address"`
	State        string               `json:"state"` // in_sync, drifted, unfinished, not_joined, not_reachable, failed
	Facts        any                  `json:"facts,omitempty"`
	Upgrade      *engine.Upgrade      `json:"upgrade,omitempty"`
	Interruption *engine.Interruption `json:"interruption,omitempty"`
	Steps        []jsonStep           `json:"steps"`
	Error        *ui.Problem          `json:"error,omitempty"`
	Mutations    int64                `json:"mutations"`
	// UnverifiedSince is when a run began that was stopped before it had verified what it
	// changed, or taken it back.
	UnverifiedSince *time.Time `json:"unverified_since,omitempty"`
	// LastRun is the note on the host of the last run that changed it.
	LastRun *steps.RunNote `json:"last_run,omitempty"`
}

// jsonPlan is the JSON output of plan and status (examples/schema/plan.schema.json).
type jsonPlan struct {
	FormatVersion string      `json:"format_version"`
	Pending       int         `json:"pending"`
	Cluster       *ui.Problem `json:"cluster_error,omitempty"`
	Hosts         []jsonHost  `json:"hosts"`
	// FormerNodes are those that the plan joined and names no more.
	FormerNodes []jsonFormer `json:"former_nodes,omitempty"`
}

func planJSON(p *plan.Compiled, r *engine.Report) any {
	out := jsonPlan{FormatVersion: "1", Pending: r.Pending(), Hosts: []jsonHost{}}
	if r.Cluster != nil {
		pr := clusterProblem(r)
		if p.Cluster != nil {
			pr.Source = p.Cluster.Source
		}
		out.Cluster = &pr
	}
	for _, n := range r.Former {
		out.FormerNodes = append(out.FormerNodes, jsonFormer{Node: n.Name, Ready: n.Ready, Address: n.InternalIP})
	}
	for _, h := range r.Hosts {
		j := jsonHost{Node: h.Node.Name, Address: h.Node.Address, State: hostState(h), Steps: []jsonStep{}, Mutations: h.Mutations, LastRun: h.Last}
		if h.Trial != nil {
			j.UnverifiedSince = &h.Trial.Begun
		}
		if h.Err != nil {
			pr := problemOf(h.Err)
			j.Error = &pr
		} else {
			j.Facts, j.Upgrade, j.Interruption = h.Facts, h.Upgrade, h.Interruption
		}
		for _, s := range h.Steps {
			j.Steps = append(j.Steps, jsonStep{Address: h.Node.Address + "." + s.Spec.ID, Kind: s.Spec.Kind, Title: s.Spec.Title, Source: s.Spec.Source, Change: s.Result.Change, Error: s.Result.Err})
		}
		out.Hosts = append(out.Hosts, j)
	}
	return out
}

// unchecked tells that not everything of the host could be checked.
func unchecked(h engine.HostReport) bool {
	s := hostState(h)
	return s == "failed" || s == "not_reachable"
}

// hostState is one word for what a check found.
func hostState(h engine.HostReport) string {
	switch {
	case unreachable(h.Err):
		return "not_reachable"
	case h.Err != nil:
		return "failed"
	}
	state := "in_sync"
	if h.Trial != nil {
		state = "drifted"
	}
	for _, s := range h.Steps {
		if s.Result.Err != nil {
			return "failed"
		}
		if !s.Result.Change.NoOp() {
			state = "drifted"
		}
	}
	switch {
	case state == "in_sync":
	case h.Untouched && h.KubeNode == nil:
		return "not_joined" // never, or it has left
	case unfinished(h):
		return "unfinished"
	}
	return state
}

// unfinished tells that the last run which changed the machine did not come to its end. One
// that was killed left no note: that is told of a first join, and of an upgrade by its trial.
func unfinished(h engine.HostReport) bool {
	switch {
	case h.Trial != nil:
		return true
	case h.Last == nil:
		return !h.Untouched && !h.LastUnknown
	}
	return h.Last.Result != "done"
}

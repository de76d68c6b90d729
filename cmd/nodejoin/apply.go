package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/transport"
)

func newApply(a *app) *cobra.Command {
	var auto, full, prune bool
	c := &cobra.Command{
		Use:   "apply [PLAN | FILE]",
		Short: "Make the hosts as the plan says",
		Long: `Compares the plan with its hosts, shows what would change, asks, and changes it:
every step is checked, applied, and checked again. An interrupted apply is finished
by the next one.

Without a terminal --auto-approve is needed, except where every host is a sandbox
or nothing is to change.

Where the plan lets it, the machine that nodejoin itself runs on is rebooted in the end;
a service does the rest after the boot.

FILE is what 'nodejoin plan --out FILE' saved: what was shown then is applied, without
a question, and refused when the plan or its hosts have changed since.`,
	}
	a.planFlags(c)
	a.runFlags(c)
	a.changeFlags(c)
	c.Flags().BoolVar(&auto, "auto-approve", false, "do not ask")
	c.Flags().BoolVar(&prune, "prune", false, "take nodes out of the cluster that the plan joined and names no more")
	c.Flags().BoolVar(&full, "full", false, "show the contents of new files and the steps with nothing to do")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		save, args, err := a.openSaved(c, args)
		if err != nil {
			return err
		}
		if prune && (save != nil || len(a.targets)+len(a.skips) > 0) {
			return usageError{c, errors.New("--prune goes with a whole plan: neither with a saved one nor with --target or --skip")}
		}
		compiled, err := a.load(ctx, args)
		if err != nil {
			return err
		}
		if err := a.sameInputs(save, args, compiled); err != nil {
			return err
		}
		var stream *ui.JSON
		if a.json {
			stream = ui.NewJSON(a.term.Out, version)
		}
		// The display of the check ends before the plan is shown; apply gets its own.
		var current ui.Display = a.newDisplay()
		emit := func(e event.Event) {
			if stream != nil {
				stream.Emit(e)
			}
			current.Emit(e)
		}
		command := "apply"
		if a.resumed != nil {
			command = "resume"
		}
		a.hold(command)
		s := engine.New(compiled, a.options(compiled, emit))
		defer s.Close()
		report := s.Check(ctx)
		current.Close()
		if ctx.Err() != nil {
			fmt.Fprintln(a.term.Err, "Nothing was changed.")
			return exitError(exitInterrupted)
		}
		a.reportProblems(report, findingsAll)
		if err := a.sameHosts(save, args, compiled, report); err != nil {
			return err
		}
		if !a.json && report.Cluster == nil && someReachable(report) {
			a.showPlan(report, full)
		}
		prune = prune && len(report.Former) > 0 && report.Cluster == nil
		if (report.Pending() == 0 || !someReady(report)) && !prune {
			if stream != nil {
				stream.Raw(summaryJSON(report, nil, nil))
			}
			if code := reportCode(report); code != exitOK {
				return exitError(code)
			}
			return nil
		}
		question := "Apply these changes?"
		if prune {
			question = fmt.Sprintf("Apply these changes, and take %d %s out of the cluster?", len(report.Former), plural(len(report.Former), "node"))
		}
		if err := a.approve(ctx, compiled, auto || save != nil, question, "look at the plan with 'nodejoin plan', then run apply with --auto-approve"); err != nil {
			return err
		}
		a.beginRun(args, compiled)
		current = a.newDisplay()
		sum := s.Apply(ctx)
		var pruned []engine.PruneResult
		code := worst(summaryCode(sum), reportCode(report))
		if prune && code == exitOK {
			pruned = s.Prune(ctx, report)
		}
		current.Close()
		if prune && code != exitOK {
			fmt.Fprintln(a.term.Err, "The nodes that the plan names no more were left in the cluster, as the apply did not come to its end.")
		}
		code = worst(code, pruneCode(pruned))
		a.endRun(code, appliedHosts(sum))
		if stream != nil {
			stream.Raw(summaryJSON(report, sum, pruned))
		}
		a.showSummary(sum, report)
		a.showPruned(pruned)
		// The last of all: this process may end at any moment behind it.
		if err := s.RebootSelf(ctx); err != nil {
			a.problems([]ui.Problem{problemOf(err)}, nil)
			code = worst(exitFailed, code)
		}
		if code != exitOK {
			return exitError(code)
		}
		return nil
	}
	return c
}

func someReachable(r *engine.Report) bool {
	for _, h := range r.Hosts {
		if h.Err == nil {
			return true
		}
	}
	return false
}

// someReady tells whether a host was checked without an error: others are left as they are.
func someReady(r *engine.Report) bool {
	for _, h := range r.Hosts {
		if r.Cluster == nil && !unchecked(h) {
			return true
		}
	}
	return false
}

// approve asks a person the question, or decides without one where that is safe;
// otherwise says what to do where nobody can be asked.
func (a *app) approve(ctx context.Context, c *plan.Compiled, auto bool, question, otherwise string) error {
	if auto {
		return nil
	}
	sandbox := true
	for _, n := range c.Nodes {
		sandbox = sandbox && n.Connection.Type == "sandbox"
	}
	if !a.term.InTTY || a.json {
		if sandbox {
			return nil
		}
		return errors.New("nobody can be asked here (no terminal): " + otherwise)
	}
	fmt.Fprintf(a.term.Err, "%s Only 'yes' is taken for a yes: ", question)
	answered := make(chan string, 1)
	go func() { // a read of a terminal knows no context; this one ends with the process
		answer, _ := bufio.NewReader(a.term.In).ReadString('\n')
		answered <- answer
	}()
	var answer string
	select {
	case answer = <-answered:
	case <-ctx.Done():
		fmt.Fprintln(a.term.Err, "Nothing was changed.")
		return exitError(exitInterrupted)
	}
	if strings.TrimSpace(answer) != "yes" {
		fmt.Fprintln(a.term.Err, "Nothing was changed.")
		return exitError(exitFailed)
	}
	return nil
}

// showSummary prints failures in full and one closing line.
func (a *app) showSummary(sum *engine.Summary, report *engine.Report) {
	changed, unchanged, failed, takenBack, interrupted, left := 0, 0, 0, 0, 0, 0
	held, rebooted, why := 0, 0, ""
	var ps []ui.Problem
	for i, h := range sum.Hosts {
		changed += len(h.Changed)
		unchanged += len(h.Unchanged)
		left += len(h.NotRun)
		if h.Held != "" {
			held, why = held+1, h.Held
		}
		if h.Err != nil {
			if h.GoesDown {
				rebooted++
			} else if errorCode(h.Err) == exitInterrupted {
				interrupted++
			} else {
				failed++
			}
			if h.Failed != "" && !slices.Contains(h.NotRun, h.Failed) {
				left++
			}
			if unchecked(report.Hosts[i]) {
				continue // what its check found was told before
			}
			p := problemOf(h.Err)
			p.Host, p.Step, p.Source = h.Node, h.Failed, h.Source
			if h.GoesDown {
				p.Warning, p.Level = true, "warning"
			}
			if h.TakenBack != nil {
				takenBack++
				p.Detail = strings.TrimSpace(p.Detail + "\n" + h.TakenBack.String() + ".")
			}
			ps = append(ps, p)
		}
	}
	if len(ps) > 0 {
		fmt.Fprintln(a.term.Err)
		a.problems(ui.Fold(ps), nil)
	}
	if a.json {
		return
	}
	word := ui.Paint(a.term.OutColor, ui.Green, "Applied")
	if failed+interrupted+held > 0 {
		word = ui.Paint(a.term.OutColor, ui.Red, "Not finished")
	}
	text := fmt.Sprintf("%s: %d changed, %d as they were", word, changed, unchanged)
	if interrupted > 0 {
		text += fmt.Sprintf(", %d %s interrupted", interrupted, plural(interrupted, "host"))
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d %s failed", failed, plural(failed, "host"))
		if takenBack > 0 {
			text += fmt.Sprintf(" (%d taken back)", takenBack)
		}
	}
	if held > 0 {
		text += fmt.Sprintf(", %d %s not begun (%s)", held, plural(held, "host"), ui.CleanLine(why))
	}
	switch {
	case failed+interrupted+held > 0:
		text += fmt.Sprintf(", %d %s left for the next apply", left, plural(left, "step"))
	case rebooted > 0:
		text += fmt.Sprintf(", %d %s left for after the reboot", left, plural(left, "step"))
	}
	a.term.Say("%s (%s).", text, sum.Duration.Round(10*time.Millisecond))
}

// problemOf turns a failure of a run into what is told of it.
func problemOf(err error) ui.Problem {
	var ce *transport.ConnectError
	if errors.As(err, &ce) {
		d := ce.Host
		if ce.Detail != "" {
			d += ": " + ce.Detail
		}
		return ui.Problem{Level: "error", Summary: ce.Summary, Detail: d, Remedy: ce.Remedy}
	}
	e := steps.AsError(err)
	return ui.Problem{Level: "error", Summary: e.Summary, Detail: e.Detail, Remedy: e.Remedy}
}

// jsonSummary is the last line of apply's JSON stream; the others are events
// (examples/schema/event.schema.json).
type jsonSummary struct {
	Type    string            `json:"type"`
	Pending int               `json:"pending"`
	Cluster *ui.Problem       `json:"cluster_error,omitempty"`
	Seconds float64           `json:"seconds"`
	Hosts   []jsonSummaryHost `json:"hosts"`
	// Pruned are the nodes that --prune took out of the cluster, or failed to.
	Pruned   []jsonPruned `json:"pruned,omitempty"`
	ExitCode int          `json:"exit_code"`
}

type jsonPruned struct {
	Node  string      `json:"node"`
	Error *ui.Problem `json:"error,omitempty"`
}

// pruneCode is the exit code of a prune.
func pruneCode(pruned []engine.PruneResult) int {
	code := exitOK
	for _, n := range pruned {
		if n.Err != nil {
			code = worst(code, errorCode(n.Err))
		}
	}
	return code
}

// showPruned tells what became of the nodes of --prune.
func (a *app) showPruned(pruned []engine.PruneResult) {
	var ps []ui.Problem
	for _, n := range pruned {
		if n.Err != nil {
			p := problemOf(n.Err)
			p.Host, p.Step = n.Node, n.Failed
			ps = append(ps, p)
		} else if !a.json {
			fmt.Fprintf(a.term.Out, "The Node %s is out of the cluster.\n", ui.CleanLine(n.Node))
		}
	}
	a.problems(ps, nil)
}

type jsonSummaryHost struct {
	Node      string      `json:"node"`
	Changed   []string    `json:"changed"`
	Unchanged int         `json:"unchanged"`
	NotRun    []string    `json:"not_run"`
	Error     *ui.Problem `json:"error,omitempty"`
	Held      string      `json:"held,omitempty"` // why the host was not begun
	// TakenBack says what became of what was changed before the error, if it was taken back.
	TakenBack *jsonTakenBack `json:"taken_back,omitempty"`
	Mutations int64          `json:"mutations"`
}

type jsonTakenBack struct {
	Version string      `json:"version,omitempty"` // that the Node is Ready with again
	Left    []string    `json:"left"`              // what could not be put back
	Error   *ui.Problem `json:"error,omitempty"`   // what stopped it
}

// summaryJSON encodes what a run came to.
func summaryJSON(r *engine.Report, sum *engine.Summary, pruned []engine.PruneResult) []byte {
	out := jsonSummary{Type: "summary", Pending: r.Pending(), Hosts: []jsonSummaryHost{}, ExitCode: reportCode(r)}
	if r.Cluster != nil {
		p := clusterProblem(r)
		out.Cluster = &p
	}
	for _, n := range pruned {
		j := jsonPruned{Node: n.Node}
		if n.Err != nil {
			p := problemOf(n.Err)
			p.Step = n.Failed
			j.Error = &p
		}
		out.Pruned = append(out.Pruned, j)
	}
	if sum == nil {
		for _, h := range r.Hosts {
			j := jsonSummaryHost{Node: h.Node.Name, Changed: []string{}, NotRun: []string{}, Mutations: h.Mutations}
			if h.Err != nil && r.Cluster == nil {
				p := problemOf(h.Err)
				j.Error = &p
			}
			for _, s := range h.Steps {
				switch {
				case s.Result.Err != nil && j.Error == nil:
					p := problemOf(s.Result.Err)
					p.Step, p.Source = s.Spec.ID, s.Spec.Source
					j.Error = &p
				case s.Result.Err == nil && s.Result.Change.NoOp():
					j.Unchanged++
				default:
					j.NotRun = append(j.NotRun, s.Spec.ID)
				}
			}
			out.Hosts = append(out.Hosts, j)
		}
	} else {
		out.Seconds, out.ExitCode = sum.Duration.Seconds(), worst(summaryCode(sum), reportCode(r))
		for _, h := range sum.Hosts {
			j := jsonSummaryHost{Node: h.Node, Changed: append([]string{}, h.Changed...), Unchanged: len(h.Unchanged), NotRun: append([]string{}, h.NotRun...), Held: h.Held, Mutations: h.Mutations}
			if h.Err != nil {
				p := problemOf(h.Err)
				p.Step, p.Source = h.Failed, h.Source
				j.Error = &p
			}
			if t := h.TakenBack; t != nil {
				j.TakenBack = &jsonTakenBack{Version: t.Version, Left: append([]string{}, t.Left...)}
				if t.Err != nil {
					p := problemOf(t.Err)
					p.Step, j.TakenBack.Error = t.Failed, &p
				}
			}
			out.Hosts = append(out.Hosts, j)
		}
	}
	out.ExitCode = worst(out.ExitCode, pruneCode(pruned))
	b, _ := json.Marshal(out)
	return b
}

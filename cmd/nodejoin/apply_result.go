package main

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// applied is the result of an apply.
type applied struct {
	report  *engine.Report
	summary *engine.Summary      // nil: there was nothing to do
	pruned  []engine.PruneResult // nodes that --prune removed from the cluster, or failed to
	// interrupted: the check was, so nothing was changed.
	interrupted bool
}

// code is the exit code.
func (r applied) code() int {
	if r.interrupted {
		return exitInterrupted
	}
	code := reportCode(r.report)
	if r.summary != nil {
		code = worst(worst(code, summaryCode(r.summary)), errorCode(r.summary.ObjectsErr))
	}
	for _, n := range r.pruned {
		code = worst(code, errorCode(n.Err))
	}
	return code
}

// hostResults are the lines of the table of an apply.
func hostResults(sum *engine.Summary) (out []ui.HostResult) {
	for _, h := range sum.Hosts {
		r := ui.HostResult{Node: h.Node, Changed: len(h.Changed) + len(h.Removed), Unchanged: len(h.Unchanged), Took: h.Took,
			Result: "done"}
		switch code := errorCode(h.Err); {
		case h.Held != "":
			r.Result, r.Reason = "not started", h.Held
		case h.Err == nil:
		case h.GoesDown:
			r.Result, r.Reason = "reboots", "the rest follows after it"
		case code == exitInterrupted:
			r.Result, r.Reason = "interrupted", "the next apply continues"
		case code == exitLocked:
			r.Result, r.Reason = "held", errorSummary(h.Err)
		default:
			r.Result, r.Reason = "failed", errorSummary(h.Err)
			if h.Failed != "" {
				r.Result = "failed at " + h.Failed
			}
			if h.Rollback != nil && h.Rollback.Err == nil {
				r.Result += ", rolled back"
			}
		}
		out = append(out, r)
	}
	return out
}

// applyProblems writes the failures of an apply to standard error.
func (a *app) applyProblems(r applied) {
	if ps := r.failures(); len(ps) > 0 {
		fmt.Fprintln(a.term.Err)
		a.problems(ui.Fold(ps), nil)
	}
}

// failures are those of an apply, without what its check has reported.
func (r applied) failures() (ps []ui.Problem) {
	for i, h := range r.summary.Hosts {
		if h.Err == nil || ui.Unchecked(r.report.Hosts[i]) {
			continue // done, or reported by the check
		}
		p := ui.ProblemOf(h.Err)
		p.Host, p.Step, p.Source = h.Node, h.Failed, h.Source
		if h.GoesDown {
			p.Warning, p.Level = true, "warning"
		}
		if h.Rollback != nil {
			p.Detail = strings.TrimSpace(p.Detail + "\n" + h.Rollback.String() + ".")
		}
		ps = append(ps, p)
	}
	if err := r.summary.ObjectsErr; err != nil {
		ps = append(ps, ui.ProblemOf(err))
	}
	for _, n := range r.pruned {
		if n.Err != nil {
			p := ui.ProblemOf(n.Err)
			p.Host, p.Step = n.Node, n.Failed
			ps = append(ps, p)
		}
	}
	return ps
}

// tally counts the steps and hosts of an apply.
type tally struct {
	removed                                 int // things that the plan no longer named
	changed, unchanged, left                int // steps
	failed, rolledBack, interrupted, reboot int // hosts
	locked                                  int // hosts that another run holds
	held                                    int // hosts that were not started
	heldWhy                                 string
}

func tallyOf(sum *engine.Summary) tally {
	var t tally
	for _, h := range sum.Hosts {
		t.changed += len(h.Changed)
		t.removed += len(h.Removed)
		t.unchanged += len(h.Unchanged)
		t.left += len(h.NotRun)
		if h.Held != "" {
			t.held, t.heldWhy = t.held+1, h.Held
		}
		if h.Err == nil {
			continue
		}
		switch {
		case h.GoesDown:
			t.reboot++
		case errorCode(h.Err) == exitInterrupted:
			t.interrupted++
		case errorCode(h.Err) == exitLocked:
			t.locked++
		default:
			t.failed++
		}
		if h.Rollback != nil {
			t.rolledBack++
		}
		if h.Failed != "" && !slices.Contains(h.NotRun, h.Failed) {
			t.left++
		}
	}
	return t
}

// text is the tally as one line, without a full stop.
func (t tally) text(color bool) string {
	unfinished := t.failed+t.interrupted+t.held+t.locked > 0
	word := ui.Paint(color, ui.Green, "Applied")
	if unfinished {
		word = ui.Paint(color, ui.Red, "Not finished")
	}
	s := fmt.Sprintf("%s: %d changed, %d unchanged", word, t.changed, t.unchanged)
	if t.removed > 0 {
		s += fmt.Sprintf(", %d removed", t.removed)
	}
	if t.interrupted > 0 {
		s += fmt.Sprintf(", %d %s interrupted", t.interrupted, plural(t.interrupted, "host"))
	}
	if t.locked > 0 {
		s += fmt.Sprintf(", %d %s held by another run", t.locked, plural(t.locked, "host"))
	}
	if t.failed > 0 {
		s += fmt.Sprintf(", %d %s failed", t.failed, plural(t.failed, "host"))
		if t.rolledBack > 0 {
			s += fmt.Sprintf(" (%d rolled back)", t.rolledBack)
		}
	}
	if t.held > 0 {
		s += fmt.Sprintf(", %d %s not started (%s)", t.held, plural(t.held, "host"), ui.CleanLine(t.heldWhy))
	}
	switch {
	case unfinished:
		s += fmt.Sprintf(", %d %s left for the next apply", t.left, plural(t.left, "step"))
	case t.reboot > 0:
		s += fmt.Sprintf(", %d %s left for after the reboot", t.left, plural(t.left, "step"))
	}
	return s
}

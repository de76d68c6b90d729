package main

import (
	"fmt"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/cmd/nodejoin/internal/usage"
	"nodejoin/steps/engine"
)

// applyText writes an apply as text.
type applyText struct {
	*app
	noEvents        // the display on standard error shows them
	full     bool   // --full
	planAt   string // the plan for the next command; "" = none is named
}

func (t *applyText) plan(r *engine.Report) { t.showPlan(r, t.full) }

func (t *applyText) result(r applied) {
	if r.summary == nil {
		return // showPlan has said so
	}
	if list := hostResults(r.summary); len(list) > 1 {
		_ = ui.WriteHosts(t.term.Out, list, t.term.OutColor, t.term.OutLimit())
	}
	t.term.Say("%s (%s).", tallyOf(r.summary).text(t.term.OutColor), r.summary.Duration.Round(10*time.Millisecond))
	for _, h := range r.summary.Hosts {
		for _, i := range h.Left {
			fmt.Fprintf(t.term.Out, "  %s stays on %s: %s\n", ui.CleanLine(ui.ThingWords(i.Key)), ui.CleanLine(h.Node),
				ui.CleanLine(i.Left))
		}
	}
	ui.WriteObjects(t.term.Out, r.summary.Objects, ui.PlanOptions{Color: t.term.OutColor, Width: t.term.Width()})
	for _, n := range r.pruned {
		if n.Err == nil {
			fmt.Fprintf(t.term.Out, "Removed the Node %s from the cluster.\n", ui.CleanLine(n.Node))
		}
	}
	if t.planAt != "" && t.alone == nil && t.term.OutLimit() > 0 {
		t.next(r)
	}
}

// next is the command that comes after an apply.
func (t *applyText) next(r applied) {
	command := "status"
	if r.code() != exitOK {
		command = "apply"
	}
	call := usage.Call(command, t.planAt, t.environment, t.varFiles, t.vars)
	fmt.Fprintf(t.term.Out, "Next:\n  %s\n", ui.CleanLine(call))
}

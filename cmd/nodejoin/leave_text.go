package main

import (
	"fmt"
	"slices"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// leaveText writes a leave as text.
type leaveText struct {
	*app
	noEvents
}

func (t *leaveText) plan(r left) {
	if r.report.Cluster != nil {
		return
	}
	for _, h := range r.report.Hosts {
		if h.Err == nil && h.Pending() {
			ui.WriteLeave(t.term.Out, h, r.options, t.term.OutColor, t.term.OutLimit())
		}
	}
}

func (t *leaveText) result(r left) {
	if r.summary == nil {
		if r.code() == exitOK {
			fmt.Fprintln(t.term.Out, "No changes: nodejoin has nothing there.")
		}
		return
	}
	for _, h := range r.summary.Hosts {
		t.hostResult(h, r)
	}
}

func (t *leaveText) hostResult(h engine.LeaveResult, r left) {
	name := ui.CleanLine(h.Node)
	if h.Err != nil {
		t.term.Say("%s: %s; the next leave continues from here.", name, ui.Paint(t.term.OutColor, ui.Red, "not finished"))
		return
	}
	var n ui.LeaveCount
	if at := slices.IndexFunc(r.report.Hosts, func(c engine.LeaveHost) bool { return c.Node.Name == h.Node }); at >= 0 {
		n = ui.CountLeft(r.report.Hosts[at], h)
	}
	text := fmt.Sprintf("%d deleted, %d restored, and checked again", n.Deleted, n.Restored)
	if h.NodeGone {
		text += "; the Node is deleted"
	}
	t.term.Say("%s: %s: %s.", name, ui.Paint(t.term.OutColor, ui.Green, "left"), text)
	for _, i := range h.Items {
		if i.Left != "" {
			t.stays(i.Key.String() + ": " + i.Left)
		}
	}
	for _, o := range h.Others {
		t.stays(o.Thing + ": of " + o.Owner)
	}
	for _, f := range h.Files {
		t.stays(f + ": not made by nodejoin")
	}
	if r.options.WithoutCluster {
		t.stays("the Node object " + h.Node + ", if the cluster has one")
	}
}

func (t *leaveText) stays(what string) {
	fmt.Fprintf(t.term.Out, "  stays: %s\n", ui.CleanLine(what))
}

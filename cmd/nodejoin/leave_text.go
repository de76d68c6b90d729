package main

import (
	"fmt"
	"io"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
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
			(&leavePlan{w: t.term.Out, color: t.term.OutColor}).write(h, r.options)
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
		t.hostResult(h, r.options)
	}
}

func (t *leaveText) hostResult(h engine.LeaveResult, o engine.LeaveOptions) {
	name := ui.CleanLine(h.Node)
	if h.Err != nil {
		t.term.Say("%s: %s; the next leave continues from here.", name, ui.Paint(t.term.OutColor, ui.Red, "not finished"))
		return
	}
	undone := 0
	for _, i := range h.Items {
		if i.Left == "" {
			undone++
		}
	}
	text := fmt.Sprintf("%d %s undone and checked again", undone, plural(undone, "item"))
	if h.NodeGone {
		text += "; the Node is deleted"
	}
	t.term.Say("%s: %s: %s.", name, ui.Paint(t.term.OutColor, ui.Green, "left"), text)
	for _, i := range h.Items {
		if i.Left != "" {
			t.stays(i.Key.String() + ": " + i.Left)
		}
	}
	for _, f := range h.Files {
		t.stays(f + ": not made by nodejoin")
	}
	if o.WithoutCluster {
		t.stays("the Node object " + h.Node + ", if the cluster has one")
	}
}

func (t *leaveText) stays(what string) {
	fmt.Fprintf(t.term.Out, "  stays: %s\n", ui.CleanLine(what))
}

// leavePlan writes what a leave would do on one host, in the order in which it is done.
type leavePlan struct {
	w                     io.Writer
	color                 bool
	remove, restore, stay int // items
}

func (p *leavePlan) write(h engine.LeaveHost, o engine.LeaveOptions) {
	about := h.Node.Connection.Type + ", " + strings.TrimSpace(h.Facts.Product+" "+h.Facts.Build)
	fmt.Fprintf(p.w, "%s  %s\n", ui.Paint(p.color, ui.Bold, ui.CleanLine(h.Node.Name)),
		ui.Paint(p.color, ui.Dim, ui.CleanLine(about)))
	if h.KubeNode != nil {
		p.drain(h)
	}
	for _, i := range h.Items {
		p.item(i)
	}
	if h.KubeNode != nil {
		p.remove++
		p.line(ui.Red, "-", "Node "+h.Node.Name, "")
	}
	if h.Folder {
		p.remove++
		p.line(ui.Red, "-", "nodejoin's own folder "+h.Facts.DataDir, "")
	}
	fmt.Fprintf(p.w, "%d to delete, %d to restore, %d to leave as they are.\n", p.remove, p.restore, p.stay)
	if o.WithoutCluster {
		fmt.Fprintln(p.w, "The cluster is not asked: the Node object stays there.")
	}
	fmt.Fprintln(p.w)
}

func (p *leavePlan) drain(h engine.LeaveHost) {
	if !h.KubeNode.Unschedulable {
		p.line(ui.Yellow, "~", "cordon the Node", "")
	}
	switch {
	case !h.KubeNode.Ready:
		p.line(ui.Dim, " ", "no drain",
			"the Node is not Ready, so its pods cannot be evicted; they are deleted with the Node")
	case len(h.Evict) > 0:
		p.line(ui.Yellow, "~", fmt.Sprintf("evict %d %s", len(h.Evict), plural(len(h.Evict), "pod")), podNames(h.Evict))
	}
}

func (p *leavePlan) item(i executor.LeaveItem) {
	switch {
	case i.Change.Action == steps.ActionDelete:
		p.remove++
		p.line(ui.Red, "-", i.Key.String(), i.Change.Reason)
	case !i.Change.NoOp():
		p.restore++
		p.line(ui.Yellow, "~", i.Key.String(), i.Change.Reason)
	case i.Left != "":
		p.stay++
		p.line(ui.Dim, " ", i.Key.String()+" stays", i.Left)
	}
}

// line writes one line; why may be empty.
func (p *leavePlan) line(style ui.Style, symbol, what, why string) {
	if why != "" {
		what += ": " + why
	}
	fmt.Fprintf(p.w, "  %s %s\n", ui.Paint(p.color, style, symbol), ui.CleanLine(what))
}

func podNames(pods []kube.Pod) string {
	const most = 10
	var list []string
	for _, p := range pods[:min(len(pods), most)] {
		list = append(list, p.String())
	}
	if len(pods) > most {
		list = append(list, fmt.Sprintf("and %d more", len(pods)-most))
	}
	return strings.Join(list, ", ")
}

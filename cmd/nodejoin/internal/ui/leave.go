package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
)

// WriteLeave writes what a leave would do on one host, in the order in which it is done. Lines are wrapped to width
// columns; 0 = no limit.
func WriteLeave(w io.Writer, h engine.LeaveHost, o engine.LeaveOptions, color bool, width int) {
	(&leavePlan{w: w, color: color, width: width}).write(h, o)
}

type leavePlan struct {
	w     io.Writer
	color bool
	width int
}

// LeaveCount counts the things of one leave. The Node and nodejoin's own folder are among those that are deleted.
type LeaveCount struct{ Deleted, Restored, Kept int }

// CountLeave counts what a leave would do on a host.
func CountLeave(h engine.LeaveHost) (n LeaveCount) {
	for _, i := range h.Items {
		n.add(i)
	}
	n.Deleted += number(h.KubeNode != nil) + number(h.Folder)
	n.Kept += len(h.Others)
	return n
}

// CountLeft counts what a leave has done of what it found.
func CountLeft(h engine.LeaveHost, r engine.LeaveResult) (n LeaveCount) {
	left := map[record.Key]string{}
	for _, i := range r.Items {
		left[i.Key] = i.Left
	}
	for _, i := range h.Items {
		if left[i.Key] == "" {
			n.add(i)
		}
	}
	n.Deleted += number(h.KubeNode != nil && r.NodeGone) + number(h.Folder)
	return n
}

func (n *LeaveCount) add(i executor.LeaveItem) {
	switch {
	case i.Change.Action == steps.ActionDelete:
		n.Deleted++
	case !i.Change.NoOp():
		n.Restored++
	case i.Left != "":
		n.Kept++
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *leavePlan) write(h engine.LeaveHost, o engine.LeaveOptions) {
	about := h.Node.Connection.Type + ", " + strings.TrimSpace(h.Facts.Product+" "+h.Facts.Build)
	fmt.Fprintf(p.w, "%s  %s\n", Paint(p.color, Bold, CleanLine(h.Node.Name)),
		Paint(p.color, Dim, CleanLine(about)))
	if h.KubeNode != nil {
		p.drain(h)
	}
	for _, i := range h.Items {
		p.item(i)
	}
	for _, o := range h.Others {
		p.line(Dim, " ", o.Thing+" stays", "of "+o.Owner)
	}
	if h.KubeNode != nil {
		p.line(Red, "-", "Node "+h.Node.Name, "")
	}
	if h.Folder {
		p.line(Red, "-", "nodejoin's own folder "+h.Facts.DataDir, "")
	}
	n := CountLeave(h)
	fmt.Fprintf(p.w, "%d to delete, %d to restore, %d to leave as they are.\n", n.Deleted, n.Restored, n.Kept)
	if o.WithoutCluster {
		fmt.Fprintln(p.w, "The cluster is not asked: the Node object stays there.")
	}
	fmt.Fprintln(p.w)
}

func (p *leavePlan) drain(h engine.LeaveHost) {
	if !h.KubeNode.Unschedulable {
		p.line(Yellow, "~", "cordon the Node", "")
	}
	switch {
	case !h.KubeNode.Ready:
		p.line(Dim, " ", "no drain",
			"the Node is not Ready, so its pods cannot be evicted; they are deleted with the Node")
	case len(h.Evict) > 0:
		p.line(Yellow, "~", fmt.Sprintf("evict %d %s", len(h.Evict), plural(len(h.Evict), "pod")), podNames(h.Evict))
	}
}

func (p *leavePlan) item(i executor.LeaveItem) {
	why := strings.Trim(i.Change.Reason+"; "+i.Left, "; ")
	switch {
	case i.Change.Action == steps.ActionDelete:
		p.line(Red, "-", ThingWords(i.Key), why)
	case !i.Change.NoOp():
		p.line(Yellow, "~", ThingWords(i.Key), why)
	case i.Left != "":
		p.line(Dim, " ", ThingWords(i.Key)+" stays", i.Left)
	}
}

// line writes one line; why may be empty.
func (p *leavePlan) line(style Style, symbol, what, why string) {
	if why != "" {
		what += ": " + why
	}
	what = CleanLine(what)
	const indent = "    "
	if p.width > 0 {
		what = strings.ReplaceAll(ansi.Wrap(what, p.width-len(indent), ""), "\n", "\n"+indent)
	}
	fmt.Fprintf(p.w, "  %s %s\n", Paint(p.color, style, symbol), what)
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

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
)

// WriteLeave writes what a leave would do on one host, in the order in which it is done. Lines are wrapped to width
// columns; 0 = no limit.
func WriteLeave(w io.Writer, h engine.LeaveHost, o engine.LeaveOptions, color bool, width int) {
	(&leavePlan{w: w, color: color, width: width}).write(h, o)
}

type leavePlan struct {
	w                     io.Writer
	color                 bool
	width                 int
	remove, restore, stay int // items
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
		p.stay++
		p.line(Dim, " ", o.Thing+" stays", "of "+o.Owner)
	}
	if h.KubeNode != nil {
		p.remove++
		p.line(Red, "-", "Node "+h.Node.Name, "")
	}
	if h.Folder {
		p.remove++
		p.line(Red, "-", "nodejoin's own folder "+h.Facts.DataDir, "")
	}
	fmt.Fprintf(p.w, "%d to delete, %d to restore, %d to leave as they are.\n", p.remove, p.restore, p.stay)
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
		p.remove++
		p.line(Red, "-", ThingWords(i.Key), why)
	case !i.Change.NoOp():
		p.restore++
		p.line(Yellow, "~", ThingWords(i.Key), why)
	case i.Left != "":
		p.stay++
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

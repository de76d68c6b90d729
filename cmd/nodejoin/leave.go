package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

func newLeave(a *app) *cobra.Command {
	var auto bool
	var o engine.LeaveOptions
	c := &cobra.Command{
		Use:   "leave [PLAN] --target NODE",
		Short: "Take nodes out of the cluster and put their hosts back as they were",
		Long: `Shows what it would do, asks, and does it: the Node is cordoned and drained; services,
HNS networks, files, firewall rules, variables and registry values that nodejoin made
go, and what it altered becomes what it was; the Node object is deleted; nodejoin's own
folder and agent go last. In the end everything is asked for again.

Only what nodejoin's record on the host names is touched. An interrupted leave is
finished by the next one, and an apply joins the node again from wherever it stands.

With --without-cluster the API server is not asked: nothing is drained, and the Node
object stays in the cluster.`,
		Example: `  nodejoin leave plans/prod --target win-1`,
	}
	a.planFlags(c)
	a.runFlags(c)
	f := c.Flags()
	f.BoolVar(&auto, "auto-approve", false, "do not ask")
	f.BoolVar(&o.WithoutCluster, "without-cluster", false, "leave the cluster alone; the Node object stays there")
	drainFlags(c, &o.Drain)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.leave(c, args, o, auto)
	}
	return c
}

func (a *app) leave(c *cobra.Command, args []string, o engine.LeaveOptions, auto bool) error {
	ctx := c.Context()
	if len(a.targets) == 0 {
		return usageError{c, errors.New("leave needs --target: name the nodes that are to leave")}
	}
	compiled, err := a.load(ctx, args)
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(a.targets, a.skips) {
		whole := !slices.Contains(a.targets, t) || slices.ContainsFunc(compiled.Nodes, func(n plan.Node) bool { return n.Name == t || n.Address == t })
		if !whole {
			return usageError{c, fmt.Errorf("--target %s: only a whole node can leave", t)}
		}
	}
	var stream *ui.JSON
	if a.json {
		stream = ui.NewJSON(a.term.Out, version)
	}
	var current ui.Display = a.newDisplay()
	a.hold("leave")
	changed := map[string][]string{} // node -> what was done, in its order
	s := engine.New(compiled, a.options(compiled, func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Result == "changed" {
			changed[d.Host] = append(changed[d.Host], d.Step)
		}
		if stream != nil {
			stream.Emit(e)
		}
		current.Emit(e)
	}))
	defer s.Close()
	report := s.CheckLeave(ctx, o)
	current.Close()
	if ctx.Err() != nil {
		fmt.Fprintln(a.term.Err, "Nothing was changed.")
		return exitError(exitInterrupted)
	}
	code := a.leaveProblems(report, o)
	pending := false
	for i := range report.Hosts {
		h := &report.Hosts[i]
		pending = pending || report.Cluster == nil && h.Err == nil && h.Pending()
		if !a.json && report.Cluster == nil && h.Err == nil {
			writeLeave(a.term.Out, h, o, a.term.OutColor)
		}
	}
	if !pending {
		if stream != nil {
			stream.Raw(leaveJSON(report, nil, code))
		}
		if code != exitOK {
			return exitError(code)
		}
		if !a.json {
			fmt.Fprintln(a.term.Out, "Nothing is left of nodejoin there.")
		}
		return nil
	}
	if err := a.approve(ctx, compiled, auto, "Let these nodes leave?", "look at what leave would do in a terminal, then run leave with --auto-approve"); err != nil {
		return err
	}
	a.beginRun(args, compiled)
	current = a.newDisplay()
	sum := s.Leave(ctx, report, o)
	current.Close()
	var codes []int
	for _, h := range sum.Hosts {
		codes = append(codes, errorCode(h.Err))
	}
	code = worst(append(codes, code)...)
	a.endRun(code, leftHosts(sum, changed))
	if stream != nil {
		stream.Raw(leaveJSON(report, sum, code))
	}
	a.leaveSummary(report, sum, o)
	if code != exitOK {
		return exitError(code)
	}
	return nil
}

// leaveProblems prints why nodes cannot leave and gives the exit code for it.
func (a *app) leaveProblems(r *engine.LeaveReport, o engine.LeaveOptions) int {
	if r.Cluster != nil {
		p := problemOf(r.Cluster)
		p.Source = a.clusterAt
		p.Remedy = strings.TrimPrefix(p.Remedy+"; or leave --without-cluster, which lets the Node object stay", "; ")
		a.problems([]ui.Problem{p}, nil)
		return errorCode(r.Cluster)
	}
	var ps []ui.Problem
	var codes []int
	for _, h := range r.Hosts {
		if h.Err != nil {
			p := problemOf(h.Err)
			p.Host, p.Source = h.Node.Name, h.Node.Connection.Source
			ps = append(ps, p)
			codes = append(codes, errorCode(h.Err))
		}
	}
	a.problems(ui.Fold(ps), nil)
	return worst(codes...)
}

// writeLeave prints what would be done on one host, in the order in which it is done.
func writeLeave(w io.Writer, h *engine.LeaveHost, o engine.LeaveOptions, color bool) {
	if !h.Pending() {
		return
	}
	about := strings.TrimSpace(h.Facts.Product + " " + h.Facts.Build)
	fmt.Fprintf(w, "%s  %s\n", ui.Paint(color, ui.Bold, ui.CleanLine(h.Node.Name)), ui.Paint(color, ui.Dim, ui.CleanLine(h.Node.Connection.Type+", "+about)))
	line := func(style ui.Style, sign, what, why string) {
		if why != "" {
			what += ": " + why
		}
		fmt.Fprintf(w, "  %s %s\n", ui.Paint(color, style, sign), ui.CleanLine(what))
	}
	if n := h.KubeNode; n != nil {
		if !n.Unschedulable {
			line(ui.Yellow, "~", "cordon the Node", "")
		}
		switch {
		case !n.Ready:
			line(ui.Dim, " ", "no drain", "the Node is not Ready, nobody would end its pods; they go with the Node")
		case len(h.Evict) > 0:
			line(ui.Yellow, "~", fmt.Sprintf("evict %d %s", len(h.Evict), plural(len(h.Evict), "pod")), podNames(h.Evict))
		}
	}
	remove, restore, stay := 0, 0, 0
	for _, i := range h.Items {
		switch {
		case i.Change.Action == steps.ActionDelete:
			remove++
			line(ui.Red, "-", i.Key, i.Change.Reason)
		case !i.Change.NoOp():
			restore++
			line(ui.Yellow, "~", i.Key, i.Change.Reason)
		case i.Left != "":
			stay++
			line(ui.Dim, " ", i.Key+" stays", i.Left)
		}
	}
	if h.KubeNode != nil {
		remove++
		line(ui.Red, "-", "Node "+h.Node.Name, "")
	}
	if h.Folder {
		remove++
		line(ui.Red, "-", "nodejoin's own folder "+h.Facts.DataDir, "")
	}
	fmt.Fprintf(w, "%d to delete, %d to put back, %d that stay.\n", remove, restore, stay)
	if o.WithoutCluster {
		fmt.Fprintln(w, "The cluster is not asked: the Node object stays there.")
	}
	fmt.Fprintln(w)
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

// leaveSummary prints failures in full, what stays, and one closing line a host.
func (a *app) leaveSummary(r *engine.LeaveReport, sum *engine.LeaveSummary, o engine.LeaveOptions) {
	var ps []ui.Problem
	for i, h := range sum.Hosts {
		if h.Err != nil && r.Hosts[i].Err == nil {
			p := problemOf(h.Err)
			p.Host, p.Step = h.Node, h.Failed
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
	for _, h := range sum.Hosts {
		name := ui.CleanLine(h.Node)
		if h.Err != nil {
			a.term.Say("%s: %s; the next leave goes on from there.", name, ui.Paint(a.term.OutColor, ui.Red, "not finished"))
			continue
		}
		gone := 0
		for _, i := range h.Items {
			if i.Left == "" {
				gone++
			}
		}
		text := "1 thing was asked for again, and is gone"
		if gone != 1 {
			text = fmt.Sprintf("%d things were asked for again, none is left", gone)
		}
		if h.NodeGone {
			text += "; the Node is gone"
		}
		a.term.Say("%s: %s: %s.", name, ui.Paint(a.term.OutColor, ui.Green, "left"), text)
		for _, i := range h.Items {
			if i.Left != "" {
				fmt.Fprintf(a.term.Out, "  stays: %s\n", ui.CleanLine(i.Key+": "+i.Left))
			}
		}
		for _, f := range h.Files {
			fmt.Fprintf(a.term.Out, "  stays: %s\n", ui.CleanLine(f+": nodejoin did not put it there"))
		}
		if o.WithoutCluster {
			fmt.Fprintf(a.term.Out, "  stays: the Node object %s, where the cluster has one\n", name)
		}
	}
}

// jsonLeave is the last line of leave's JSON stream (examples/schema/leave.schema.json);
// the others are events.
type jsonLeave struct {
	Type     string          `json:"type"`
	Cluster  *ui.Problem     `json:"cluster_error,omitempty"`
	Seconds  float64         `json:"seconds"`
	Hosts    []jsonLeaveHost `json:"hosts"`
	ExitCode int             `json:"exit_code"`
}

type jsonLeaveHost struct {
	Node      string          `json:"node"`
	Items     []jsonLeaveItem `json:"items"`
	Evict     []string        `json:"evict,omitempty"`
	NodeGone  bool            `json:"node_gone"`
	Left      bool            `json:"left"` // it is done
	Files     []string        `json:"files,omitempty"`
	Error     *ui.Problem     `json:"error,omitempty"`
	Mutations int64           `json:"mutations"`
}

type jsonLeaveItem struct {
	Key    string       `json:"key"`
	Action steps.Action `json:"action,omitempty"` // still to be done
	Stays  string       `json:"stays,omitempty"`
}

// leaveJSON encodes what a leave would do, or came to.
func leaveJSON(r *engine.LeaveReport, sum *engine.LeaveSummary, code int) []byte {
	out := jsonLeave{Type: "summary", Hosts: []jsonLeaveHost{}, ExitCode: code}
	if r.Cluster != nil {
		p := problemOf(r.Cluster)
		out.Cluster = &p
	}
	for n, h := range r.Hosts {
		j := jsonLeaveHost{Node: h.Node.Name, Items: []jsonLeaveItem{}}
		items, err := h.Items, h.Err
		for _, p := range h.Evict {
			j.Evict = append(j.Evict, p.String())
		}
		if sum != nil {
			res := sum.Hosts[n]
			items, err, j.NodeGone, j.Files, j.Mutations, j.Left = res.Items, res.Err, res.NodeGone, res.Files, res.Mutations, res.Err == nil
		}
		for _, i := range items {
			j.Items = append(j.Items, jsonLeaveItem{i.Key, i.Change.Action, i.Left})
		}
		if err != nil && r.Cluster == nil {
			p := problemOf(err)
			j.Error = &p
		}
		out.Hosts = append(out.Hosts, j)
	}
	if sum != nil {
		out.Seconds = sum.Duration.Seconds()
	}
	b, _ := json.Marshal(out)
	return b
}

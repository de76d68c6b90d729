package ui

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// hostBody is what would change on hosts that differ in nothing but their own words.
func hostBody(hosts []engine.HostReport, o PlanOptions, own *words) string {
	var b strings.Builder
	h := hosts[0]
	w := hostWriter{&b, o, own}
	if own != nil {
		h.Interruption = together(hosts)
	}
	w.upgrade(h)
	w.moved(h)
	if h.Interruption != nil {
		w.line(Yellow, "!", interruption(h, hosts))
	}
	idw := 0
	for _, s := range h.Steps {
		idw = max(idw, len(s.Spec.ID))
	}
	idw = min(idw, 28, max(o.Width/3, 12))
	for _, s := range h.Steps {
		w.step(s, idw)
	}
	w.removals(h)
	return b.String()
}

// together is the interruption of hosts of a group. Of a host that is compared with others its pods do not count.
func together(hosts []engine.HostReport) *engine.Interruption {
	if hosts[0].Interruption == nil {
		return nil
	}
	i := *hosts[0].Interruption
	i.Evict = nil
	if len(hosts) > 1 {
		for _, h := range hosts {
			i.Evict = append(i.Evict, h.Interruption.Evict...)
		}
	}
	return &i
}

// step prints what would change in a step. Its id gets idw columns.
func (w hostWriter) step(s engine.StepReport, idw int) {
	row := func(style Style, symbol, text string) {
		head := fmt.Sprintf("  %s %-*s ", Paint(w.Color, style, symbol), idw, s.Spec.ID)
		fmt.Fprintln(w, hang(head, CleanLine(w.own.in(text)), idw+5, w.Width))
	}
	c := s.Result.Change
	switch {
	case s.Result.Err != nil:
		row(Red, "x", s.Result.Err.Error())
		return
	case c.NoOp():
		if w.Full {
			text := fmt.Sprintf("%-*s %s", idw, s.Spec.ID, CleanLine(s.Spec.Title))
			fmt.Fprintf(w, "    %s\n", Paint(w.Color, Dim, text))
		}
		return
	}
	text := s.Spec.Title
	if text != "" && c.Reason != "" {
		text += ": "
	}
	row(marks[c.Action].style, marks[c.Action].symbol, text+c.Reason)
	if c.Action != steps.ActionCreate || w.Full {
		for _, d := range c.Diffs {
			w.diff(d)
		}
	}
}

// upgrade prints a change of the version of Kubernetes and what it means, and a run that was stopped.
func (w hostWriter) upgrade(h engine.HostReport) {
	if t := h.Snapshot; t != nil {
		what := "was stopped before it had verified or rolled back what it changed; this run finishes that"
		if t.RolledBack != nil {
			what = "was rolled back, and stopped before it had observed that the machine works; this run checks it"
		}
		w.line(Yellow, "!", fmt.Sprintf("a run started at %s %s", t.Begun.Format("2006-01-02T15:04Z"), what))
	}
	if u := h.Upgrade; u != nil {
		word := "upgrade"
		if u.Downgrade {
			word = "downgrade"
		}
		w.line(Bold, "^", fmt.Sprintf("%s of Kubernetes: %s -> %s", word, u.From, u.To))
		for _, n := range u.Notes {
			w.line(Dim, " ", n)
		}
		if h.Node.OnFailure != "keep" && h.KubeNode != nil && h.KubeNode.Ready {
			w.line(Dim, " ", "if a step fails, the changes are rolled back to "+u.From)
		}
	}
}

// moved prints what becomes of the Nodes that the machine is in the cluster as, under former names.
func (w hostWriter) moved(h engine.HostReport) {
	for _, n := range h.Moved {
		first := "it is cordoned and drained first, and "
		if !n.Ready {
			first = "it "
			if !n.Unschedulable {
				first = "it is cordoned first, and "
			}
		}
		w.line(Yellow, "!", fmt.Sprintf("moved: the machine is the Node %s in the cluster; %sis deleted once %s works",
			n.Name, first, h.Node.Name))
	}
}

// interruption is what pods of the hosts of a group notice of an apply; h is the first with what is common.
func interruption(h engine.HostReport, hosts []engine.HostReport) string {
	i := h.Interruption
	node, then := "the Node is cordoned, ", "; then it takes pods again"
	if len(hosts) > 1 {
		node, then = "each Node is cordoned, ", "; then it takes pods again"
	}
	text := "interruption: " + node
	switch n := len(i.Evict); {
	case n > 0:
		const most = 10
		list := slices.Clone(i.Evict[:min(n, most)])
		if n > most {
			list = append(list, fmt.Sprintf("and %d more", n-most))
		}
		on := ""
		if len(hosts) > 1 {
			on = fmt.Sprintf(" from %d Nodes", len(hosts))
		}
		text += fmt.Sprintf("%d %s evicted%s (%s), ", n, plural(n, "pod"), on, strings.Join(list, ", "))
	case h.KubeNode != nil && !h.KubeNode.Ready:
		text += "not drained, as it is not Ready, "
	}
	var what []string
	if i.Reboot {
		what = append(what, "the machine is rebooted")
	}
	switch len(i.Services) {
	case 0:
	case 1:
		what = append(what, i.Services[0]+" stops and starts")
	default:
		what = append(what, strings.Join(i.Services, " and ")+" stop and start")
	}
	if len(i.Networks) > 0 {
		what = append(what, "network "+strings.Join(i.Networks, " and ")+" is removed")
	}
	return text + strings.Join(what, ", ") + then
}

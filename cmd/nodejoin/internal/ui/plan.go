package ui

import (
	"fmt"
	"io"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// marks are the signs of actions at the start of a line.
var marks = map[steps.Action]struct {
	symbol string
	style  Style
	verb   string
}{
	steps.ActionCreate:  {"+", Green, "create"},
	steps.ActionUpdate:  {"~", Yellow, "update"},
	steps.ActionDelete:  {"-", Red, "delete"},
	steps.ActionRemove:  {"-", Red, "remove"},
	steps.ActionForget:  {" ", Dim, "forget"},
	steps.ActionRestart: {"!", Yellow, "restart"},
	steps.ActionStart:   {">", Green, "start"},
	steps.ActionReboot:  {"!", Red, "reboot"},
	steps.ActionWait:    {".", Cyan, "wait"},
	steps.ActionUnknown: {"?", Blue, "not known yet"},
}

// PlanOptions say how a plan is shown.
type PlanOptions struct {
	Color bool
	Width int
	Full  bool // also contents of new files, and steps without changes
}

// WritePlan prints what a report would change, host by host, and a closing line.
func WritePlan(w io.Writer, r *engine.Report, o PlanOptions) {
	count := r.Actions()
	hosts, failed := 0, 0
	// Hosts with the same changes are shown once.
	var order []string
	names := map[string][]string{}
	for _, h := range r.Hosts {
		var b strings.Builder
		if h.Err != nil || !writeHost(&b, h, o) {
			continue
		}
		hosts++
		for _, s := range h.Steps {
			if s.Result.Err != nil {
				failed++
			}
		}
		if names[b.String()] == nil {
			order = append(order, b.String())
		}
		names[b.String()] = append(names[b.String()], Paint(o.Color, Bold, CleanLine(h.Node.Name)))
	}
	for _, body := range order {
		head, rest, _ := strings.Cut(body, "\n")
		fmt.Fprintf(w, "%s  %s\n%s", strings.Join(names[body], ", "), head, rest)
	}
	var parts []string
	for _, a := range []steps.Action{steps.ActionCreate, steps.ActionUpdate, steps.ActionDelete, steps.ActionRemove,
		steps.ActionForget, steps.ActionRestart, steps.ActionReboot, steps.ActionStart, steps.ActionUnknown, steps.ActionWait} {
		if n := count[a]; n > 0 {
			verb := "to " + marks[a].verb
			if a == steps.ActionUnknown || a == steps.ActionWait {
				verb = map[steps.Action]string{steps.ActionUnknown: "not known yet", steps.ActionWait: "to wait for"}[a]
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, verb))
		}
	}
	if n := interrupted(r); n > 1 {
		l := r.Rollout
		text := fmt.Sprintf("Rollout: %d Nodes are interrupted, at most %d at once; after %d %s no other Node is started.",
			n, l.MaxUnavailable, l.MaxFailures, plural(l.MaxFailures, "failure"))
		fmt.Fprintln(w, Wrap(text, "", o.Width))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be checked", failed))
	}
	if len(parts) > 0 {
		s := Wrap(fmt.Sprintf("Plan on %d %s: %s.", hosts, plural(hosts, "host"), strings.Join(parts, ", ")), "", o.Width)
		fmt.Fprintln(w, Paint(o.Color, Bold, "Plan")+strings.TrimPrefix(s, "Plan"))
	}
}

// interrupted counts the Nodes whose pods an apply interrupts.
func interrupted(r *engine.Report) int {
	n := 0
	for _, h := range r.Hosts {
		if h.Interruption != nil {
			n++
		}
	}
	return n
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

// writeHost prints one line about the machine, and below it what would change there. It
// returns false if there is nothing to show.
func writeHost(w io.Writer, h engine.HostReport, o PlanOptions) bool {
	n := 0
	for _, s := range h.Steps {
		if s.Result.Err != nil || !s.Result.Change.NoOp() {
			n++
		}
	}
	if h.Snapshot != nil {
		n++
	}
	n += h.Removals.Pending()
	if n == 0 && !o.Full {
		return false
	}
	about := strings.TrimSpace(h.Facts.Product + " " + h.Facts.Build)
	fmt.Fprintln(w, Paint(o.Color, Dim, CleanLine(strings.TrimSuffix(h.Node.Connection.Type+", "+about, ", "))))
	writeUpgrade(w, h, o)
	idw := 0
	for _, s := range h.Steps {
		idw = max(idw, len(s.Spec.ID))
	}
	for _, s := range h.Steps {
		writeStep(w, s, min(idw, 28), o)
	}
	writeRemovals(w, h, o)
	fmt.Fprintln(w)
	return true
}

// writeStep prints what would change in a step. Its id gets idw columns.
func writeStep(w io.Writer, s engine.StepReport, idw int, o PlanOptions) {
	row := func(style Style, symbol, text string) {
		lines := strings.Split(Wrap(CleanLine(text), "", max(o.Width-idw-5, 24)), "\n")
		fmt.Fprintf(w, "  %s %-*s %s\n", Paint(o.Color, style, symbol), idw, s.Spec.ID, lines[0])
		for _, l := range lines[1:] {
			fmt.Fprintf(w, "    %-*s %s\n", idw, "", l)
		}
	}
	c := s.Result.Change
	switch {
	case s.Result.Err != nil:
		row(Red, "x", s.Result.Err.Error())
		return
	case c.NoOp():
		if o.Full {
			text := fmt.Sprintf("%-*s %s", idw, s.Spec.ID, CleanLine(s.Spec.Title))
			fmt.Fprintf(w, "    %s\n", Paint(o.Color, Dim, text))
		}
		return
	}
	text := s.Spec.Title
	if text != "" && c.Reason != "" {
		text += ": "
	}
	row(marks[c.Action].style, marks[c.Action].symbol, text+c.Reason)
	if c.Action != steps.ActionCreate || o.Full {
		for _, d := range c.Diffs {
			writeDiff(w, d, o)
		}
	}
}

// writeUpgrade prints a change of the version of Kubernetes, what it means, and how the
// apply interrupts pods.
func writeUpgrade(w io.Writer, h engine.HostReport, o PlanOptions) {
	line := func(style Style, symbol, text string) {
		lines := strings.Split(Wrap(CleanLine(text), "", max(o.Width-4, 24)), "\n")
		fmt.Fprintf(w, "  %s %s\n", Paint(o.Color, style, symbol), lines[0])
		for _, l := range lines[1:] {
			fmt.Fprintf(w, "    %s\n", l)
		}
	}
	if t := h.Snapshot; t != nil {
		what := "was stopped before it had verified or rolled back what it changed; this run finishes that"
		if t.RolledBack != nil {
			what = "was rolled back, and stopped before it had observed that the machine works; this run checks it"
		}
		line(Yellow, "!", fmt.Sprintf("a run started at %s %s", t.Begun.Format("2006-01-02T15:04Z"), what))
	}
	if u := h.Upgrade; u != nil {
		word := "upgrade"
		if u.Downgrade {
			word = "downgrade"
		}
		line(Bold, "^", fmt.Sprintf("%s of Kubernetes: %s -> %s", word, u.From, u.To))
		for _, n := range u.Notes {
			line(Dim, " ", n)
		}
		if h.Node.OnFailure != "keep" && h.KubeNode != nil && h.KubeNode.Ready {
			line(Dim, " ", "if a step fails, the changes are rolled back to "+u.From)
		}
	}
	if h.Interruption != nil {
		line(Yellow, "!", interruption(h))
	}
}

// interruption is what pods notice of an apply.
func interruption(h engine.HostReport) string {
	i := h.Interruption
	text := "interruption: the Node is cordoned, "
	switch n := len(i.Evict); {
	case n > 0:
		const most = 10
		list := i.Evict[:min(n, most)]
		if n > most {
			list = append(list[:most:most], fmt.Sprintf("and %d more", n-most))
		}
		text += fmt.Sprintf("%d %s evicted (%s), ", n, plural(n, "pod"), strings.Join(list, ", "))
	case h.KubeNode != nil && !h.KubeNode.Ready:
		text += "not drained, as it is not Ready, "
	}
	var what []string
	if i.Reboot {
		what = append(what, "the machine is rebooted")
	}
	if len(i.Services) > 0 {
		what = append(what, strings.Join(i.Services, " and ")+" stop and start")
	}
	return text + strings.Join(what, ", ") + "; then it takes pods again"
}

func writeDiff(w io.Writer, d steps.Diff, o PlanOptions) {
	const in = "      "
	name := CleanLine(d.Name)
	switch {
	case d.Sensitive:
		fmt.Fprintf(w, "%s%s: (sensitive, differs)\n", in, name)
	case !d.Text:
		fmt.Fprintf(w, "%s%s: %s -> %s\n", in, name, Paint(o.Color, Red, quoteEmpty(d.Have)),
			Paint(o.Color, Green, quoteEmpty(d.Want)))
	default:
		fmt.Fprintf(w, "%s%s:\n", in, name)
		have, want := ensureNL(d.Have), ensureNL(d.Want)
		u := udiff.Unified("on the host", "in the plan", have, want)
		for _, l := range strings.Split(strings.TrimSuffix(u, "\n"), "\n") {
			st := Style("")
			switch {
			case strings.HasPrefix(l, "---"), strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "@@"):
				st = Dim
			case strings.HasPrefix(l, "-"):
				st = Red
			case strings.HasPrefix(l, "+"):
				st = Green
			}
			fmt.Fprintf(w, "%s  %s\n", in, Paint(o.Color, st, CleanLineKeepIndent(l)))
		}
	}
}

func ensureNL(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		return s + "\n"
	}
	return s
}

func quoteEmpty(s string) string {
	if s == "" {
		return "(none)"
	}
	return CleanLine(s)
}

package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// counted are the actions in the order in which they are counted.
var counted = []steps.Action{steps.ActionReboot, steps.ActionRestart, steps.ActionRemove, steps.ActionDelete,
	steps.ActionUpdate, steps.ActionCreate, steps.ActionStart, steps.ActionForget, steps.ActionUnknown, steps.ActionWait}

// WritePlan prints what a report would change, by groups of hosts with the same changes, and counts it.
func WritePlan(w io.Writer, r *engine.Report, o PlanOptions) {
	hosts := 0
	for _, g := range groups(r.Hosts, o) {
		hosts += len(g.hosts)
		writeHeads(w, g.hosts, o)
		fmt.Fprintln(w, g.body)
	}
	WriteObjects(w, r.Objects, o)
	for _, line := range lateCredentials(r.Hosts, time.Now()) {
		fmt.Fprintln(w, Wrap(line, "  ", o.Width))
	}
	if n := interrupted(r); n > 1 {
		l := r.Rollout
		text := fmt.Sprintf("Rollout: %d Nodes are interrupted, at most %d at once; after %d %s no other Node is started.",
			n, l.MaxUnavailable, l.MaxFailures, plural(l.MaxFailures, "failure")) + waves(l)
		fmt.Fprintln(w, Wrap(text, "", o.Width))
	}
	writeCounts(w, r, hosts, o)
}

// waves says how many Nodes each wave has.
func waves(l plan.Rollout) string {
	if len(l.Sizes) == 0 {
		return ""
	}
	sizes := fmt.Sprint(l.Sizes[0])
	for _, n := range l.Sizes[1:] {
		sizes += fmt.Sprintf(", then %d", n)
	}
	text := fmt.Sprintf(" Waves of %s, and so on", sizes)
	if l.Pause > 0 {
		text += fmt.Sprintf(", with a pause of %s between them", l.Pause)
	}
	return text + "."
}

// writeHeads prints the names of hosts and what they are.
func writeHeads(w io.Writer, hosts []engine.HostReport, o PlanOptions) {
	var names, abouts []string
	for _, h := range hosts {
		names = append(names, CleanLine(h.Node.Name))
		about := strings.TrimSpace(h.Facts.Product + " " + h.Facts.Build)
		about = CleanLine(strings.TrimSuffix(h.Node.Connection.Type+", "+about, ", "))
		if !slices.Contains(abouts, about) {
			abouts = append(abouts, about)
		}
	}
	const most = 40 // of names, and of systems a few
	text := FewNames(names, most)
	if len(hosts) > 2 {
		text += fmt.Sprintf(" (%d hosts)", len(hosts))
	}
	about := strings.Join(abouts[:min(3, len(abouts))], "; ")
	if n := len(abouts) - 3; n > 0 {
		about += fmt.Sprintf(" and %d more", n)
	}
	if len([]rune(text+about))+2 <= o.Width {
		fmt.Fprintln(w, Paint(o.Color, Bold, text)+"  "+Paint(o.Color, Dim, about))
		return
	}
	for _, l := range strings.Split(Wrap(text, "", o.Width), "\n") {
		fmt.Fprintln(w, Paint(o.Color, Bold, l))
	}
	for _, l := range strings.Split(Wrap(about, "  ", o.Width), "\n") {
		fmt.Fprintln(w, Paint(o.Color, Dim, l))
	}
}

// writeCounts prints how much is to be done, by action, and below each action by kind.
func writeCounts(w io.Writer, r *engine.Report, hosts int, o PlanOptions) {
	var parts, lines []string
	kinds := r.Kinds()
	for _, a := range counted {
		of := kinds[a]
		n := 0
		names := make([]string, 0, len(of))
		for kind := range of {
			n += of[kind]
			names = append(names, kind)
		}
		if n == 0 {
			continue
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, countVerb(a)))
		slices.SortFunc(names, func(x, y string) int {
			if of[x] != of[y] {
				return of[y] - of[x]
			}
			return strings.Compare(x, y)
		})
		for i, kind := range names {
			names[i] = fmt.Sprintf("%d%s%s", of[kind], joint, kind)
		}
		lines = append(lines, hang("  "+countVerb(a)+": ", strings.Join(names, ", "), 4, o.Width))
	}
	failed := 0
	for _, h := range r.Hosts {
		for _, s := range h.Steps {
			if s.Result.Err != nil {
				failed++
			}
		}
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be checked", failed))
	}
	if len(parts) == 0 {
		return
	}
	s := Wrap(fmt.Sprintf("Plan on %d %s: %s.", hosts, plural(hosts, "host"), strings.Join(parts, ", ")), "", o.Width)
	fmt.Fprintln(w, Paint(o.Color, Bold, "Plan")+strings.TrimPrefix(s, "Plan"))
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
}

func countVerb(a steps.Action) string {
	switch a {
	case steps.ActionUnknown:
		return marks[a].verb
	case steps.ActionWait:
		return "to wait for"
	}
	return "to " + marks[a].verb
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

package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
)

// PauseLine says what a pause of a node, or its end, has changed.
func PauseLine(node string, r executor.PauseReply, p *steps.GuardPause) string {
	text := "its guard works"
	switch {
	case p != nil:
		text = "paused " + p.String()
	case r.Before != nil:
		text = "no longer paused (" + r.Before.String() + ")"
	}
	if r.Guard == nil {
		text += "; no guard has reported on this machine"
	}
	return CleanLine(node + ": " + text)
}

// silent is how many intervals a guard may be late until it counts as silent.
const silent = 3

// guardState is the state of a host's guard in one word, with what there is to say of it; "" = it has none.
func guardState(h engine.HostReport, now time.Time) (word, text string) {
	g := h.Guard
	switch {
	case h.Paused.Holds(now):
		word, text = "paused", "paused "+h.Paused.String()
	case g == nil:
		return "", ""
	case now.Sub(g.At) > silent*g.Interval+time.Minute:
		word, text = "silent", "silent; nodejoin-node last checked the node"
	case len(g.Problems) == 0:
		return "in order", ""
	default:
		word = "not in order"
	}
	if g == nil {
		return word, text
	}
	parts := []string{}
	if text != "" {
		parts = append(parts, text)
	}
	parts = append(parts, "at "+g.At.UTC().Format(minutes))
	for _, p := range g.Problems {
		parts = append(parts, fmt.Sprintf("%s (since %s)", p.String(), p.Since.UTC().Format(minutes)))
	}
	return word, strings.Join(parts, "; ")
}

// writeGuards prints what the guards of the nodes last saw: a line for each that is not in order, and how many there
// are in each state. Nodes without a guard are left out.
func writeGuards(w io.Writer, r *engine.Report, now time.Time, limit int) error {
	count := map[string]int{}
	for _, h := range r.Hosts {
		word, text := guardState(h, now)
		count[word]++
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintln(w, Fit(CleanLine("guard of "+h.Node.Name+": "+text), limit)); err != nil {
			return err
		}
	}
	var parts []string
	for _, word := range []string{"in order", "not in order", "paused", "silent"} {
		if n := count[word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, Fit("Guards: "+strings.Join(parts, ", ")+".", limit))
	return err
}

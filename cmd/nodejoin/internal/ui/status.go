package ui

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/engine"
)

// States are the states of nodes as --only takes them, in the order in which they are counted.
var States = []string{"in-sync", "drifted", "unfinished", "not-joined", "unreachable", "failed", "foreign"}

// stateOf is HostState in the words of States.
func stateOf(h engine.HostReport) string {
	switch s := HostState(h); s {
	case "not_reachable":
		return "unreachable"
	default:
		return strings.ReplaceAll(s, "_", "-")
	}
}

// OnlyStates is the report with the nodes of these states; none stand for all.
func OnlyStates(r *engine.Report, only []string) *engine.Report {
	if len(only) == 0 {
		return r
	}
	out := *r
	out.Hosts = slices.DeleteFunc(slices.Clone(r.Hosts), func(h engine.HostReport) bool {
		return !slices.Contains(only, stateOf(h))
	})
	if !slices.Contains(only, "foreign") {
		out.Former = nil
	}
	return &out
}

// WriteStatus prints a line for each node of only, and how many there are in each state. limit is the width of the
// terminal, 0 without one.
func WriteStatus(w io.Writer, r *engine.Report, only []string, limit int) error {
	if rows := StatusRows(r, only); len(rows) > 1 {
		if err := OneLine(w, limit, rows, 5, 2, 4); err != nil {
			return err
		}
	}
	for _, h := range OnlyStates(r, only).Hosts {
		if next := Continue(h); next != "" {
			_, err := fmt.Fprintf(w, "The leave of %s is unfinished: '%s' continues it.\n", CleanLine(h.Node.Name), next)
			if err != nil {
				return err
			}
		}
	}
	WriteObjects(w, r.Objects, PlanOptions{Width: cmp.Or(limit, 80)})
	if err := writeGuards(w, OnlyStates(r, only), time.Now(), limit); err != nil {
		return err
	}
	for _, line := range lateCredentials(OnlyStates(r, only).Hosts, time.Now()) {
		if _, err := fmt.Fprintln(w, Fit(line, limit)); err != nil {
			return err
		}
	}
	return writeTotals(w, r, limit)
}

// StatusRows is the table of status, with its head: a row for each node of only.
func StatusRows(r *engine.Report, only []string) [][]string {
	shown := OnlyStates(r, only)
	rows := [][]string{{"NODE", "STATE", "IN ORDER", "DIFFERS", "LAST CHANGED", "SYSTEM"}}
	for _, h := range shown.Hosts {
		rows = append(rows, statusRow(h))
	}
	for _, n := range shown.Former {
		rows = append(rows, []string{CleanLine(n.Name), "foreign", "-", "no longer in the plan", "-",
			"kubelet " + CleanLine(n.KubeletVersion)})
	}
	return rows
}

// writeTotals counts all nodes of the report by state.
func writeTotals(w io.Writer, r *engine.Report, limit int) error {
	count := map[string]int{"foreign": len(r.Former)}
	for _, h := range r.Hosts {
		count[stateOf(h)]++
	}
	var parts []string
	for _, s := range States {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(s, "-", " ")))
		}
	}
	n := len(r.Hosts) + len(r.Former)
	_, err := fmt.Fprintln(w, Fit(fmt.Sprintf("%d %s: %s.", n, plural(n, "node"), strings.Join(parts, ", ")), limit))
	return err
}

// stateWords are hostState for people.
var stateWords = map[string]string{"in_sync": "in sync", "drifted": "drifted", "unfinished": "unfinished",
	"not_joined":    "not joined",
	"not_reachable": "not reachable", "failed": "could not be checked"}

func statusRow(h engine.HostReport) []string {
	state := HostState(h)
	inOrder, differs := differences(h)
	if h.Err != nil || state == "not_joined" {
		differs = "-" // everything, or not known
	}
	return []string{CleanLine(h.Node.Name), stateWords[state], fmt.Sprint(inOrder), differs, lastChanged(h),
		CleanLine(h.Facts.Product + " " + h.Facts.Build)}
}

// differences counts the steps of a host that are in order, and describes the others.
func differences(h engine.HostReport) (inOrder int, differs string) {
	first := ""
	for _, s := range h.Steps {
		if s.Result.Err == nil && s.Result.Change.NoOp() {
			inOrder++
			continue
		}
		if first != "" {
			continue
		}
		first = s.Spec.ID
		if t := s.Result.Change.Since; t != nil {
			first += ", written " + t.UTC().Format(minutes)
		}
	}
	n := len(h.Steps) - inOrder
	if gone := h.Removals.Removing(); len(gone) > 0 {
		n += len(gone)
		if first == "" {
			first = CleanLine(ThingWords(gone[0].Key)) + " is no longer in the plan"
		}
	}
	for _, old := range h.Moved {
		if n++; first == "" {
			first = "the Node " + CleanLine(old.Name) + " is moved here"
		}
	}
	switch {
	case n > 0:
		return inOrder, fmt.Sprintf("%d (first: %s)", n, first)
	case h.Snapshot != nil:
		return inOrder, "0 (but a run was not verified)"
	}
	return inOrder, "0"
}

// lastChanged is when the last run that changed the host ended, and how.
func lastChanged(h engine.HostReport) string {
	switch {
	case h.Err != nil || h.LastUnknown, h.Last == nil && !h.Untouched: // a run that was killed left no note
		return "not known"
	case h.Last == nil:
		return "never"
	}
	result := CleanLine(h.Last.Result)
	if h.Last.IsLeave() {
		result = "leave " + result
	}
	return h.Last.Ended.UTC().Format(minutes) + " " + result
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

func newStatus(a *app) *cobra.Command {
	x := &compareCommand{app: a, findings: findingsErrors, text: a.statusTable}
	c := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "Show whether the nodes still match the plan",
		Long: `Compares every host and the cluster with the plan, changes nothing, and prints one line
per node: its state, what differs, and when and how the last run that changed it ended. If
a file differs, the time at which it was written is shown. The states are

  in sync      as planned
  drifted      changed since the last run
  unfinished   the last run failed or was stopped
  not joined   nodejoin has nothing on the machine
  foreign      joined by this plan, no longer in it

An apply continues an unfinished run. A machine that has left is not joined. With
--detailed-exitcode the exit code is 2 if a node is drifted, unfinished or not joined.`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().BoolVar(&x.detailed, "detailed-exitcode", false, "exit with 2 if a node is not in sync, else with 0")
	return c
}

func (a *app) statusTable(r *engine.Report) error {
	if r.Cluster != nil {
		return nil //nolint:nilerr // nothing was checked, and reportProblems says why
	}
	rows := [][]string{{"NODE", "STATE", "IN ORDER", "DIFFERS", "LAST CHANGED", "SYSTEM"}}
	for _, h := range r.Hosts {
		rows = append(rows, statusRow(h))
	}
	for _, n := range r.Former {
		rows = append(rows, []string{ui.CleanLine(n.Name), "foreign: no longer in the plan", "-", "-", "-",
			"kubelet " + ui.CleanLine(n.KubeletVersion)})
	}
	return ui.Table(a.term.Out, a.term.OutLimit(), rows)
}

// stateWords are hostState for people.
var stateWords = map[string]string{"in_sync": "in sync", "drifted": "drifted", "unfinished": "unfinished",
	"not_joined":    "not joined",
	"not_reachable": "not reachable", "failed": "could not be checked"}

func statusRow(h engine.HostReport) []string {
	state := hostState(h)
	inOrder, differs := differences(h)
	if h.Err != nil || state == "not_joined" {
		differs = "-" // everything, or not known
	}
	return []string{ui.CleanLine(h.Node.Name), stateWords[state], fmt.Sprint(inOrder), differs, lastChanged(h),
		ui.CleanLine(h.Facts.Product + " " + h.Facts.Build)}
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
			first = ui.CleanLine(ui.ThingWords(gone[0].Key)) + " is no longer in the plan"
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

// minutes is the format of times in tables, which are in UTC.
const minutes = "2006-01-02T15:04Z"

// lastChanged is when the last run that changed the host ended, and how.
func lastChanged(h engine.HostReport) string {
	switch {
	case h.Err != nil || h.LastUnknown, h.Last == nil && !h.Untouched: // a run that was killed left no note
		return "not known"
	case h.Last == nil:
		return "never"
	}
	return h.Last.Ended.UTC().Format(minutes) + " " + ui.CleanLine(h.Last.Result)
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
	"nodejoin/steps/transport"
)

func newStatus(a *app) *cobra.Command {
	var detailed bool
	c := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "Show whether the nodes are still as the plan says",
		Long: `Asks every host and the cluster, changes nothing, and prints one line a node, with the
end of the last run that changed it: what has drifted since a run that was done, did so
after that, and where it is a file's content, it is said when the file was written.
Where the last run failed or was stopped, and a first join that was killed, the node is
unfinished: the next apply goes on from there. A machine on which nodejoin has nothing,
as it never joined or has left, is not joined. A node that the plan joined and names no
more is foreign.
With --detailed-exitcode the exit code is 2 when a node has drifted, is unfinished or not
joined.`,
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when a node is not in sync, else 0")
	c.RunE = func(c *cobra.Command, args []string) error {
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		d := a.newDisplay()
		s := engine.New(compiled, a.options(compiled, d.Emit))
		defer s.Close()
		r := s.Check(c.Context())
		d.Close()
		if a.json {
			if err := a.printJSON(planJSON(compiled, r)); err != nil {
				return err
			}
		} else if r.Cluster == nil {
			if err := a.statusTable(r); err != nil {
				return err
			}
		}
		if code := a.reportProblems(r, findingsErrors); code != exitOK {
			return exitError(code)
		}
		if detailed && r.Pending() > 0 {
			return exitError(exitPending)
		}
		return nil
	}
	return c
}

func (a *app) statusTable(r *engine.Report) error {
	rows := [][]string{{"NODE", "STATE", "IN ORDER", "DIFFERS", "LAST CHANGED", "SYSTEM"}}
	for _, h := range r.Hosts {
		ok, differs, first := 0, 0, ""
		for _, s := range h.Steps {
			if s.Result.Err == nil && s.Result.Change.NoOp() {
				ok++
				continue
			}
			differs++
			if first == "" {
				first = s.Spec.ID
				if t := s.Result.Change.Since; t != nil {
					first += ", written " + t.UTC().Format(minutes)
				}
			}
		}
		text := map[string]string{"in_sync": "in sync", "drifted": "drifted", "unfinished": "unfinished", "not_joined": "not joined", "not_reachable": "not reachable", "failed": "could not be checked"}[hostState(h)]
		about := fmt.Sprintf("%d", differs)
		if differs > 0 {
			about += " (first: " + first + ")"
		}
		if h.Trial != nil && differs == 0 {
			about += " (but a run was not verified)"
		}
		if h.Err != nil || hostState(h) == "not_joined" {
			about = "-" // all of it, or not known
		}
		rows = append(rows, []string{ui.CleanLine(h.Node.Name), text, fmt.Sprint(ok), about, lastChanged(h), ui.CleanLine(h.Facts.Product + " " + h.Facts.Build)})
	}
	for _, n := range r.Former {
		rows = append(rows, []string{ui.CleanLine(n.Name), "foreign: the plan names it no more", "-", "-", "-", "kubelet " + ui.CleanLine(n.KubeletVersion)})
	}
	return ui.Table(a.term.Out, a.term.OutLimit(), rows)
}

// unreachable tells that the host itself did not answer: it may be as the plan says.
func unreachable(err error) bool {
	var ce *transport.ConnectError
	return errors.As(err, &ce) && ce.Reason == transport.ReasonUnreachable || errors.Is(err, transport.ErrDropped)
}

// minutes is how the table writes times, which are in UTC.
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

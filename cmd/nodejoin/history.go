package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/complete"
	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/event"
)

// historyCommand is one run of history.
type historyCommand struct {
	*app
	root string
	path string        // of the plan
	run  *history.Run  // the run that the argument names; nil = list those of the plan
	runs []history.Run // of the plan, newest first
}

func newHistory(a *app) *cobra.Command {
	x := &historyCommand{app: a}
	c := &cobra.Command{
		Use:   "history [PLAN | RUN]",
		Short: "Show what earlier runs on this computer did",
		Long: fmt.Sprintf(`Lists the runs that changed the hosts of a plan, newest first, or shows one run: what it
changed, how long each step took, and what was tried again.

Runs are recorded on the computer that they were started on, below $XDG_STATE_HOME/nodejoin
(~/.local/state/nodejoin; on Windows below %%LocalAppData%%), the last %d of each plan. A
host keeps a short note of its last runs (history.json in nodejoin's folder), and the Node
has a note of the last one in the annotation nodejoin.dev/last-apply.`, history.Keep),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{c, errors.New("give one plan or one run")}
			}
			if a.environment != "" && !steps.IsEnvironment(a.environment) {
				return usageError{c, fmt.Errorf("--env %s: the name of an environment has small letters, digits and '-'",
					a.environment)}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := x.load(c, args); err != nil {
				return err
			}
			if x.reportFile != "" && x.run == nil {
				return usageError{c, errors.New("--report shows one run: name it")}
			}
			if err := x.show(); err != nil || x.run == nil {
				return err
			}
			page := x.page("history", args)
			page.Data = jsonout.OfRun(*x.run, runResult(*x.run), true)
			return exit(x.written(exitOK, report.WriteHTML(x.reportFile, page.OfRun(*x.run, runResult(*x.run)))))
		},
	}
	c.ValidArgsFunction = complete.Runs
	c.Flags().StringVar(&a.environment, "env", "", "only runs in the environment `name`")
	_ = c.RegisterFlagCompletionFunc("env", completeEnvironment)
	a.reportFlag(c)
	c.Flags().BoolVar(&a.json, "json", false, "print JSON on standard output")
	return c
}

// load reads the run or the runs of the plan that the argument names.
func (x *historyCommand) load(c *cobra.Command, args []string) (err error) {
	if x.root, err = history.Root(); err != nil {
		return err
	}
	if len(args) == 1 && history.IsRun(args[0]) {
		return x.loadRun(c, args[0])
	}
	return x.loadPlan(c, args)
}

func (x *historyCommand) loadRun(c *cobra.Command, name string) error {
	r, err := history.Find(x.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return usageError{c, noRun(x.root, fmt.Sprintf("no run %s is recorded on this computer", name))}
	}
	x.run = &r
	return err
}

func (x *historyCommand) loadPlan(c *cobra.Command, args []string) (err error) {
	if x.path, err = planPath(args); err != nil {
		return err
	}
	if x.environment != "" {
		x.runs, err = history.Runs(x.root, x.path, x.environment)
	} else {
		x.runs, err = history.AllRuns(x.root, x.path)
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(x.path); len(x.runs) == 0 && errors.Is(err, fs.ErrNotExist) {
		return usageError{c, noRun(x.root, args[0]+" is neither a plan nor a run recorded on this computer")}
	}
	slices.Reverse(x.runs)
	return nil
}

func (x *historyCommand) show() error {
	switch {
	case x.run != nil && x.json:
		return x.printJSON(jsonout.OfRun(*x.run, runResult(*x.run), true))
	case x.run != nil:
		return ui.WriteRun(x.term.Out, *x.run, runResult(*x.run))
	case x.json:
		out := []jsonout.Run{}
		for _, r := range x.runs {
			out = append(out, jsonout.OfRun(r, runResult(r), false))
		}
		return x.printJSON(out)
	}
	return x.list()
}

// list prints the runs of the plan as a table.
func (x *historyCommand) list() error {
	if len(x.runs) == 0 {
		x.term.Say("No runs of %s are recorded on this computer.", ui.CleanLine(x.path))
		return nil
	}
	rows := [][]string{{"RUN", "COMMAND", "PLAN", "BY", "NODES", "CHANGED", "RESULT", "VARIABLES"}}
	for _, r := range x.runs {
		h := r.Head.Holder
		rows = append(rows, []string{h.Run, ui.CleanLine(h.Command), ui.CleanLine(r.Head.Called()), ui.CleanLine(h.User),
			fmt.Sprint(len(r.Head.Nodes)), fmt.Sprint(changedBy(r)), runResult(r), cmp.Or(ui.CleanLine(r.Head.With()), "-")})
	}
	return ui.OneLine(x.term.Out, x.term.OutLimit(), rows, 3, 4, 2, 7)
}

// noRun says why there is nothing to show, and lists the newest runs.
func noRun(root, why string) error {
	const most = 10
	runs, err := history.Newest(root, most)
	switch {
	case err != nil:
		return fmt.Errorf("%s; the recorded runs cannot be listed: %w", why, err)
	case len(runs) == 0:
		return fmt.Errorf("%s; there are none", why)
	}
	why += "; the newest are"
	for _, r := range runs {
		why += fmt.Sprintf("\n  %s  %s %s", r.Head.Holder.Run, r.Head.Holder.Command, r.Head.Plan)
	}
	return errors.New(why)
}

// runResult is the result of a run in one word or two.
func runResult(r history.Run) string {
	switch {
	case r.End == nil && !holder.Gone(r.Head.Holder):
		return history.Running // or not known: it was started on another computer that shares this folder
	case r.End == nil:
		return "did not end"
	case r.End.ExitCode == exitOK:
		return "done"
	case r.End.ExitCode == exitInterrupted:
		return "interrupted"
	case r.End.ExitCode == exitLocked:
		return "locked" // by another run
	case r.End.ExitCode == exitReboot:
		return "reboot pending"
	}
	return "failed"
}

// changedBy counts what a run has changed. A run that did not end is counted by its events.
func changedBy(r history.Run) int {
	n := 0
	if r.End == nil {
		for _, entry := range r.Events {
			e, err := event.Decode(entry.Event)
			if d, ok := e.(event.StepDone); err == nil && ok && d.Result == "changed" {
				n++
			}
		}
		return n
	}
	for _, h := range r.End.Hosts {
		n += len(h.Changed)
	}
	return n
}

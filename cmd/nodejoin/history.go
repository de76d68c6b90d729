package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

func newHistory(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "history [PLAN | RUN]",
		Short: "Show what earlier runs on this computer did",
		Long: fmt.Sprintf(`Lists the runs that changed the hosts of a plan, the newest first, or shows one: what
it changed, how long each step took, what was tried again.

Runs are kept on the computer that they were started on, below $XDG_STATE_HOME/nodejoin
(~/.local/state/nodejoin; on Windows below %%LocalAppData%%), the last %d of each plan. A
host keeps a short note of its last runs (history.json in nodejoin's folder), and the
Node one of the last in the annotation nodejoin.dev/last-apply.`, history.Keep),
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{c, errors.New("one plan or one run at a time")}
		}
		return nil
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON on standard output")
	c.RunE = func(c *cobra.Command, args []string) error {
		root, err := history.Root()
		if err != nil {
			return err
		}
		if len(args) == 1 && history.IsRun(args[0]) {
			r, err := history.Find(root, args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return usageError{c, noRun(root, fmt.Sprintf("no run %s is kept on this computer", args[0]))}
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(runJSON(r, true))
			}
			return writeRun(a.term.Out, r)
		}
		path, err := planPath(args)
		if err != nil {
			return err
		}
		runs, err := history.Runs(root, path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); len(runs) == 0 && errors.Is(err, fs.ErrNotExist) {
			return usageError{c, noRun(root, fmt.Sprintf("%s is neither a plan nor a run that is kept on this computer", args[0]))}
		}
		slices.Reverse(runs)
		if a.json {
			out := []jsonRun{}
			for _, r := range runs {
				out = append(out, runJSON(r, false))
			}
			return a.printJSON(out)
		}
		return a.listRuns(path, runs)
	}
	return c
}

// noRun is why there is nothing to show, with the newest runs that there are.
func noRun(root, why string) error {
	const most = 10
	runs, err := history.Newest(root, most)
	switch {
	case err != nil:
		return fmt.Errorf("%s; what is kept cannot be listed: %w", why, err)
	case len(runs) == 0:
		return fmt.Errorf("%s; none is", why)
	}
	why += "; the newest are"
	for _, r := range runs {
		why += fmt.Sprintf("\n  %s  %s %s", r.Head.Holder.Run, r.Head.Holder.Command, r.Head.Plan)
	}
	return errors.New(why)
}

// planPath is the absolute folder of the plan that the arguments name.
func planPath(args []string) (string, error) {
	path := "."
	if len(args) > 0 {
		path = args[0]
	}
	if strings.HasSuffix(path, plan.Suffix) {
		path = filepath.Dir(path)
	}
	return filepath.Abs(path)
}

// beginRun starts the record of a run that is about to change something. A run without
// a record is still a run: what goes wrong is told, and no more.
func (a *app) beginRun(args []string, c *plan.Compiled) {
	path, err := planPath(args)
	h := history.Head{Holder: a.holder, Version: version, Plan: path, Digest: a.digest, Nodes: []string{}}
	for _, n := range c.Nodes {
		h.Nodes = append(h.Nodes, n.Name)
	}
	var root string
	if err == nil {
		root, err = history.Root()
	}
	if err == nil {
		a.run, err = history.Begin(root, h)
	}
	if err != nil {
		a.noRecord(err)
	}
}

// endRun ends the record.
func (a *app) endRun(code int, hosts []history.Host) {
	err := a.run.Finish(history.End{ExitCode: code, Hosts: hosts})
	a.run = nil
	if err != nil {
		a.noRecord(err)
	}
}

func (a *app) noRecord(err error) {
	a.problems([]ui.Problem{{Warning: true, Level: "warning", Summary: "this run is not in the history", Detail: err.Error()}}, nil)
}

func appliedHosts(sum *engine.Summary) []history.Host {
	out := []history.Host{}
	for _, h := range sum.Hosts {
		out = append(out, history.Host{Node: h.Node, Changed: append([]string{}, h.Changed...), Unchanged: len(h.Unchanged), Left: len(h.NotRun), Failed: h.Failed, Error: errorSummary(h.Err)})
	}
	return out
}

func errorSummary(err error) string {
	if err == nil {
		return ""
	}
	return problemOf(err).Summary
}

// runResult says in a word what became of a run.
func runResult(r history.Run) string {
	switch {
	case r.End == nil && !gone(r.Head.Holder):
		return "under way" // or of another computer's process, whose folder this is
	case r.End == nil:
		return "did not end"
	case r.End.ExitCode == exitOK:
		return "done"
	case r.End.ExitCode == exitInterrupted:
		return "interrupted"
	case r.End.ExitCode == exitReboot:
		return "reboot pending"
	}
	return "failed"
}

// jsonRun is a run in the JSON of history.
type jsonRun struct {
	Run      string          `json:"run"`
	Command  string          `json:"command"`
	User     string          `json:"user"`
	Host     string          `json:"host"`
	Since    time.Time       `json:"since"`
	Ended    *time.Time      `json:"ended,omitempty"`
	Result   string          `json:"result"`
	ExitCode *int            `json:"exit_code,omitempty"`
	Version  string          `json:"version"`
	Plan     string          `json:"plan"`
	Digest   string          `json:"digest"`
	Nodes    []string        `json:"nodes"`
	Hosts    []history.Host  `json:"hosts"`
	Events   []history.Entry `json:"events,omitempty"`
}

func runJSON(r history.Run, events bool) jsonRun {
	h := r.Head
	j := jsonRun{Run: h.Holder.Run, Command: h.Holder.Command, User: h.Holder.User, Host: h.Holder.Host, Since: h.Holder.Since, Result: runResult(r),
		Version: h.Version, Plan: h.Plan, Digest: h.Digest, Nodes: h.Nodes, Hosts: []history.Host{}}
	if r.End != nil {
		j.Ended, j.ExitCode, j.Hosts = &r.End.Ended, &r.End.ExitCode, r.End.Hosts
	}
	if events {
		j.Events = r.Events
	}
	return j
}

func (a *app) listRuns(path string, runs []history.Run) error {
	if len(runs) == 0 {
		a.term.Say("No run of %s is kept on this computer.", ui.CleanLine(path))
		return nil
	}
	rows := [][]string{{"RUN", "COMMAND", "BY", "NODES", "CHANGED", "RESULT"}}
	for _, r := range runs {
		h := r.Head.Holder
		rows = append(rows, []string{h.Run, ui.CleanLine(h.Command), ui.CleanLine(h.User), fmt.Sprint(len(r.Head.Nodes)), fmt.Sprint(changedBy(r)), runResult(r)})
	}
	return ui.Table(a.term.Out, a.term.OutLimit(), rows)
}

// changedBy counts what a run has changed; of one without an end, what it has told of.
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

// writeRun shows one run: its head, then what happened on each host.
func writeRun(out io.Writer, r history.Run) error {
	h := r.Head
	fmt.Fprintf(out, "%s: %s\nplan     %s (%s)\nnodejoin %s\nresult   %s", h.Holder.Run, ui.CleanLine(h.Holder.String()), ui.CleanLine(h.Plan), ui.CleanLine(h.Digest), ui.CleanLine(h.Version), runResult(r))
	if r.End != nil {
		fmt.Fprintf(out, ", exit code %d, after %s", r.End.ExitCode, r.End.Ended.Sub(h.Holder.Since).Round(time.Second))
		if r.End.Cut {
			fmt.Fprint(out, "; not all events were kept")
		}
	}
	fmt.Fprintln(out)
	lines := map[string][]string{}
	quiet := map[string]int{}
	for _, entry := range r.Events {
		e, err := event.Decode(entry.Event)
		if err != nil {
			return fmt.Errorf("%s: %w", h.Holder.Run, err)
		}
		switch e := e.(type) {
		case event.StepDone:
			if e.Result == "unchanged" && e.Action != "wait" {
				quiet[e.Host]++
				continue
			}
			// The step stands behind what is short: the key of a registry value may be long.
			l := fmt.Sprintf("%s\t%s\t%s", cmp.Or(map[string]string{"failed": "failed", "unchanged": "reached"}[e.Result], e.Action), e.Duration.Round(time.Millisecond), e.Step)
			if e.Attempt > 1 {
				l += fmt.Sprintf(", try %d", e.Attempt)
			}
			if e.Summary != "" {
				l += ": " + e.Summary
			}
			lines[e.Host] = append(lines[e.Host], l)
		case event.StepProgress:
			if strings.HasPrefix(e.Note, "try ") {
				lines[e.Host] = append(lines[e.Host], "\t\t"+e.Step+": "+e.Note)
			}
		case event.HostState:
			if e.State == "reconnecting" || e.State == "waiting" {
				lines[e.Host] = append(lines[e.Host], e.State+"\t\t"+e.Detail)
			}
		case event.Warning:
			lines[e.Host] = append(lines[e.Host], "warning\t\t"+e.Summary+": "+e.Detail)
		}
	}
	for _, host := range slices.Concat([]string{""}, h.Nodes) {
		if len(lines[host]) == 0 && quiet[host] == 0 {
			continue
		}
		if host != "" {
			same := ""
			if n := quiet[host]; n > 0 {
				same = fmt.Sprintf(" %d %s as they were", n, plural(n, "step"))
			}
			fmt.Fprintf(out, "\n%s:%s\n", ui.CleanLine(host), same)
		}
		w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
		for _, l := range lines[host] {
			parts := strings.Split(l, "\t")
			for i := range parts {
				parts[i] = ui.CleanLine(parts[i])
			}
			fmt.Fprintln(w, "  "+strings.Join(parts, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

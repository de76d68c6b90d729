package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/steps/event"
)

// runLog is what happened in a run on one host. It is "" for what concerns no host.
type runLog struct {
	lines     []runLine
	unchanged int // steps
}

// runLine is one line of a runLog: what happened, how long it took, and the details.
type runLine struct{ what, took, text string }

// WriteRun shows one run: its head with the result in words, and what happened on each host.
func WriteRun(out io.Writer, r history.Run, result string) error {
	logs, err := runLogs(r.Events)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Head.Holder.Run, err)
	}
	writeRunHead(out, r, result)
	for _, host := range slices.Concat([]string{""}, r.Head.Nodes) {
		if l := logs[host]; l != nil {
			if err := l.write(out, host); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeRunHead(out io.Writer, r history.Run, result string) {
	h := r.Head
	fmt.Fprintf(out, "%s: %s\n", h.Holder.Run, CleanLine(h.Holder.String()))
	fmt.Fprintf(out, "plan     %s (%s)\n", CleanLine(h.Plan), CleanLine(h.Digest))
	if h.Environment != "" {
		fmt.Fprintf(out, "env      %s\n", CleanLine(h.Environment))
	}
	fmt.Fprintf(out, "nodejoin %s\n", CleanLine(h.Version))
	fmt.Fprintf(out, "result   %s", result)
	if r.End != nil {
		fmt.Fprintf(out, ", exit code %d, after %s", r.End.ExitCode, r.End.Ended.Sub(h.Holder.Since).Round(time.Second))
		if r.End.Cut {
			fmt.Fprint(out, "; some events were not recorded")
		}
	}
	fmt.Fprintln(out)
	if next := r.Continue(); next != "" && result != history.Running {
		fmt.Fprintf(out, "continue %s\n", CleanLine(next))
	}
}

// runLogs sorts the events of a run by host.
func runLogs(events []history.Entry) (map[string]*runLog, error) {
	logs := map[string]*runLog{}
	of := func(host string) *runLog {
		if logs[host] == nil {
			logs[host] = &runLog{}
		}
		return logs[host]
	}
	for _, entry := range events {
		e, err := event.Decode(entry.Event)
		if err != nil {
			return nil, err
		}
		switch e := e.(type) {
		case event.StepDone:
			of(e.Host).step(e)
		case event.StepProgress:
			if strings.HasPrefix(e.Note, "try ") {
				of(e.Host).add("", "", e.Step+": "+e.Note)
			}
		case event.HostState:
			if e.State == "reconnecting" || e.State == "waiting" {
				of(e.Host).add(e.State, "", e.Detail)
			}
		case event.Warning:
			of(e.Host).add("warning", "", e.Summary+": "+e.Detail)
		}
	}
	return logs, nil
}

func (l *runLog) add(what, took, text string) { l.lines = append(l.lines, runLine{what, took, text}) }

func (l *runLog) step(e event.StepDone) {
	what := e.Action
	switch {
	case e.Result == "failed":
		what = "failed"
	case e.Result == "unchanged" && e.Action != "wait":
		l.unchanged++
		return
	case e.Result == "unchanged":
		what = "reached"
	}
	text := e.Step
	if e.Attempt > 1 {
		text += fmt.Sprintf(", try %d", e.Attempt)
	}
	if e.Summary != "" {
		text += ": " + e.Summary
	}
	l.add(what, e.Duration.Round(time.Millisecond).String(), text)
}

// write shows the log. The text is the last column, since it may be long.
func (l *runLog) write(out io.Writer, host string) error {
	if host != "" {
		unchanged := ""
		if l.unchanged > 0 {
			unchanged = fmt.Sprintf(" %d %s unchanged", l.unchanged, plural(l.unchanged, "step"))
		}
		fmt.Fprintf(out, "\n%s:%s\n", CleanLine(host), unchanged)
	}
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	for _, line := range l.lines {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", cell(line.what), cell(line.took), cell(line.text))
	}
	return w.Flush()
}

// cell is text for a column of a tabwriter.
func cell(s string) string { return strings.ReplaceAll(CleanLine(s), "\t", " ") }

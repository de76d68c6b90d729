package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
)

const timeForm = "2006-01-02 15:04:05Z"

// Text prints the report for people: a line for each shard that has ended, what did not work, and the totals.
func (r Report) Text(w io.Writer) error {
	rows := [][]string{{"SHARD", "HOSTS", "ENDED", "RESULT"}}
	for _, s := range r.Shards {
		rows = append(rows, []string{strconv.Itoa(s.Shard), strconv.Itoa(s.Hosts), s.Ended.Format(timeForm),
			r.Job.result(s)})
	}
	if err := ui.Table(w, 0, rows); err != nil {
		return err
	}
	for _, s := range r.Shards {
		if s.Hosts > 0 || s.Stderr == "" {
			continue // the lines of its hosts say it
		}
		text := "    " + strings.ReplaceAll(strings.TrimSpace(ui.Clean(s.Stderr)), "\n", "\n    ")
		if _, err := fmt.Fprintf(w, "shard %d:\n%s\n", s.Shard, text); err != nil {
			return err
		}
	}
	t, err := r.totals()
	if err != nil {
		return err
	}
	for _, line := range t.lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "The Job %s %s: %d of %d shards have a result, %d pods run. %d hosts: %s.\n", r.Job.Name,
		r.Job.text(), len(r.Shards), r.Job.Shards, r.Job.Active, len(r.Hosts), t.text()); err != nil || r.Drift == nil {
		return err
	}
	if t, err = r.Drift.totals(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "The check for drift of %s %s: %d hosts: %s. --drift shows it.\n",
		r.Drift.Job.Created.Format(timeForm), r.Drift.Job.text(), len(r.Drift.Hosts), t.text())
	return err
}

// result says how a shard ended, and whether it starts again.
func (j JobState) result(s ShardState) string {
	text := meanings[s.Code]
	if s.Code == codeFailed && (s.Command == "doctor" || s.Command == "verify") {
		text = map[string]string{"doctor": "doctor found errors", "verify": "a test failed"}[s.Command]
	}
	if s.Code != codeOK {
		text += fmt.Sprintf(" (exit code %d)", s.Code)
	}
	again := s.Code == codeUnreachable || s.Code == codeLocked
	switch {
	case s.Code == codeInvalid:
		text += ", which ends the Job"
	case again && slices.Contains(j.FailedShards, s.Shard):
		text += fmt.Sprintf(", also after %d retries", s.Retried)
	case again && !j.Ended():
		text += fmt.Sprintf("; the shard starts again, %d of %d retries used", s.Retried, j.Retries)
	case s.Retried > 0:
		text += fmt.Sprintf(", after %d retries", s.Retried)
	}
	return text
}

// text says how far the Job is.
func (j JobState) text() string {
	switch {
	case j.Complete:
		return "is complete"
	case j.Failed != "":
		return "has failed (" + ui.CleanLine(j.Failed) + ")"
	case j.Suspended:
		return "is stopped"
	}
	return "is running"
}

// totals are what a report has of all hosts.
type totals struct {
	checked                 bool // not applied
	changed, failed, inSync int
	different               []string // nodes that are not in sync
	lines                   []string // of hosts
}

func (r Report) totals() (t totals, err error) {
	for _, raw := range r.Hosts {
		var h host
		if err := json.Unmarshal(raw, &h); err != nil {
			return t, err
		}
		why, name := h.Held, ui.CleanLine(h.Node)
		if h.Error != nil {
			why = h.Error.Summary
		}
		switch {
		case len(h.Changed) > 0 || h.Left:
			t.changed++
		case h.State == "in_sync":
			t.inSync++
		case h.State != "":
			t.different = append(t.different, name)
			if why == "" {
				why = strings.ReplaceAll(h.State, "_", " ")
			}
		}
		t.checked = t.checked || h.State != ""
		if n := len(h.Findings); n > 0 && why == "" {
			t.lines = append(t.lines, fmt.Sprintf("%s: %d findings", name, n))
		}
		if why != "" {
			t.failed++
			t.lines = append(t.lines, name+": "+ui.CleanLine(why))
		}
	}
	return t, nil
}

func (t totals) text() string {
	const most = 5
	if !t.checked {
		return fmt.Sprintf("%d changed, %d failed", t.changed, t.failed)
	}
	text := fmt.Sprintf("%d in sync, %d not", t.inSync, len(t.different))
	if names := t.different; len(names) > most {
		text += fmt.Sprintf(" (%s, %d more)", strings.Join(names[:most], ", "), len(names)-most)
	} else if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	return text
}

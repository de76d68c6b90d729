package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// Exit codes of the commands that pods run (cmd/nodejoin/exit.go).
const (
	codeOK          = 0
	codeFailed      = 1
	codePending     = 2
	codeUnreachable = 4
)

// JobState is the progress of a Job.
type JobState struct {
	Name      string `json:"name"`
	UID       string `json:"-"`
	Shards    int    `json:"shards"`
	Active    int    `json:"active"`    // pods that run
	Succeeded int    `json:"succeeded"` // shards
	Suspended bool   `json:"suspended"`
	Complete  bool   `json:"complete"`
	Failed    string `json:"failed,omitempty"` // why; "" = it has not failed
}

// Ended reports whether no pod starts anymore.
func (s JobState) Ended() bool { return s.Complete || s.Failed != "" }

// stateOf reads a Job.
func stateOf(job map[string]any) JobState {
	meta, spec, status := field(job, "metadata"), field(job, "spec"), field(job, "status")
	s := JobState{Shards: number(spec["completions"]), Active: number(status["active"]),
		Succeeded: number(status["succeeded"])}
	s.Name, _ = meta["name"].(string)
	s.UID, _ = meta["uid"].(string)
	s.Suspended, _ = spec["suspend"].(bool)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["status"] != "True" {
			continue
		}
		switch c["type"] {
		case "Complete":
			s.Complete = true
		case "Failed":
			s.Failed = fmt.Sprintf("%v: %v", c["reason"], c["message"])
		}
	}
	return s
}

// Report is what all shards have left, as if one run had made it.
type Report struct {
	FormatVersion string            `json:"format_version"`
	Job           JobState          `json:"job"`
	Shards        []ShardState      `json:"shards"`
	Hosts         []json.RawMessage `json:"hosts"` // those of 'apply --json' or 'status --json', by node
	ExitCode      int               `json:"exit_code"`
}

// ShardState is the result of a shard.
type ShardState struct {
	Shard int       `json:"shard"`
	Code  int       `json:"exit_code"`
	Hosts int       `json:"hosts"`
	Ended time.Time `json:"ended"`
}

// host is what this package reads of a host in a report.
type host struct {
	Node    string   `json:"node"`
	Changed []string `json:"changed"`
	State   string   `json:"state"`
	Held    string   `json:"held"`
	Error   *struct {
		Summary string `json:"summary"`
	} `json:"error"`
}

// severity is the order of exit codes, the worst first: that of one run over all hosts.
var severity = []int{130, 3, 8, 1, 5, 7, 4, 6, 9, 2}

// Gather makes one report of the results.
func Gather(job JobState, results []Result) (Report, error) {
	out := Report{FormatVersion: "1", Job: job, Shards: []ShardState{}, Hosts: []json.RawMessage{}}
	names, codes := map[string]json.RawMessage{}, []int{}
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.Shard, b.Shard) })
	for _, r := range results {
		var report struct {
			Hosts []json.RawMessage `json:"hosts"`
		}
		if len(r.Report) > 0 {
			if err := json.Unmarshal(r.Report, &report); err != nil {
				return out, fmt.Errorf("the report of shard %d cannot be read: %w", r.Shard, err)
			}
		}
		for _, raw := range report.Hosts {
			var h host
			if err := json.Unmarshal(raw, &h); err != nil {
				return out, fmt.Errorf("the report of shard %d cannot be read: %w", r.Shard, err)
			}
			if names[h.Node] != nil {
				return out, fmt.Errorf("node %q is in the reports of two shards", h.Node)
			}
			names[h.Node] = raw
		}
		codes = append(codes, r.Code)
		out.Shards = append(out.Shards, ShardState{Shard: r.Shard, Code: r.Code, Hosts: len(report.Hosts), Ended: r.Ended})
	}
	sorted := []string{}
	for n := range names {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	for _, n := range sorted {
		out.Hosts = append(out.Hosts, names[n])
	}
	for _, c := range severity {
		if slices.Contains(codes, c) {
			out.ExitCode = c
			break
		}
	}
	if out.ExitCode == 0 && job.Failed != "" {
		out.ExitCode = codeFailed
	}
	return out, nil
}

// Text prints the report for people: a line for each shard that has ended, what did not work, and the totals.
func (r Report) Text(w io.Writer) error {
	rows := [][]string{{"SHARD", "HOSTS", "EXIT CODE", "ENDED"}}
	for _, s := range r.Shards {
		rows = append(rows, []string{strconv.Itoa(s.Shard), strconv.Itoa(s.Hosts), strconv.Itoa(s.Code),
			s.Ended.Format("2006-01-02 15:04:05Z")})
	}
	if err := ui.Table(w, 0, rows); err != nil {
		return err
	}
	changed, failed := 0, 0
	for _, raw := range r.Hosts {
		var h host
		if err := json.Unmarshal(raw, &h); err != nil {
			return err
		}
		if len(h.Changed) > 0 {
			changed++
		}
		why := h.Held
		if h.Error != nil {
			why = h.Error.Summary
		}
		if why == "" {
			continue
		}
		failed++
		if _, err := fmt.Fprintf(w, "%s: %s\n", ui.CleanLine(h.Node), ui.CleanLine(why)); err != nil {
			return err
		}
	}
	state := "runs"
	switch {
	case r.Job.Complete:
		state = "is complete"
	case r.Job.Failed != "":
		state = "has failed (" + ui.CleanLine(r.Job.Failed) + ")"
	case r.Job.Suspended:
		state = "is stopped"
	}
	_, err := fmt.Fprintf(w, "The Job %s %s: %d of %d shards have a result, %d pods run. %d hosts: %d changed, "+
		"%d failed.\n", r.Job.Name, state, len(r.Shards), r.Job.Shards, r.Job.Active, len(r.Hosts), changed, failed)
	return err
}

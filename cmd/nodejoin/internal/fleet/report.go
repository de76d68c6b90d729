package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/runmetrics"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/steps/verify"
)

// Exit codes of the commands that pods run (cmd/nodejoin/exit.go).
const (
	codeOK          = 0
	codeFailed      = 1
	codePending     = 2
	codeInvalid     = 3
	codeUnreachable = 4
	codeLocked      = 7
)

// meanings say what the exit codes mean.
var meanings = map[int]string{codeOK: "done", codeFailed: "a step failed", codePending: "changes are pending",
	codeInvalid: "the plan or the call is not valid", codeUnreachable: "a host or the API server did not answer",
	5: "applied, but a check found a difference afterwards", 6: "a reboot is pending",
	codeLocked: "another run held a host or the cluster", 8: "a defect of nodejoin",
	9: "the results could not be written", 130: "it was interrupted"}

// JobState is the progress of a Job.
type JobState struct {
	Name         string    `json:"name"`
	UID          string    `json:"-"`
	Created      time.Time `json:"created"`
	Shards       int       `json:"shards"`
	Active       int       `json:"active"`    // pods that run
	Succeeded    int       `json:"succeeded"` // shards
	Retries      int       `json:"retries"`   // that each shard has
	FailedShards []int     `json:"failed_shards,omitempty"`
	Suspended    bool      `json:"suspended"`
	Complete     bool      `json:"complete"`
	Failed       string    `json:"failed,omitempty"` // why; "" = it has not failed
}

// Ended reports whether no pod starts anymore.
func (j JobState) Ended() bool { return j.Complete || j.Failed != "" }

// stateOf reads a Job.
func stateOf(job map[string]any) JobState {
	meta, spec, status := field(job, "metadata"), field(job, "spec"), field(job, "status")
	s := JobState{Shards: number(spec["completions"]), Active: number(status["active"]),
		Succeeded: number(status["succeeded"]), Retries: number(spec["backoffLimitPerIndex"])}
	indexes, _ := status["failedIndexes"].(string)
	s.FailedShards = shardsOf(indexes)
	created, _ := meta["creationTimestamp"].(string)
	s.Created, _ = time.Parse(time.RFC3339, created) // the API server writes it so
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

// shardsOf reads indexes such as "1,3-5", as the Job controller writes them. Shards count from 1.
func shardsOf(indexes string) (out []int) {
	for part := range strings.SplitSeq(indexes, ",") {
		from, to, many := strings.Cut(part, "-")
		if !many {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, lastErr := strconv.Atoi(to)
		if err != nil || lastErr != nil || last >= selection.MostShards {
			continue
		}
		for i := first; i <= last; i++ {
			out = append(out, i+1)
		}
	}
	return out
}

// Report is what all shards have left, as if one run had made it.
type Report struct {
	FormatVersion string            `json:"format_version"`
	Job           JobState          `json:"job"`
	Shards        []ShardState      `json:"shards"`
	Hosts         []json.RawMessage `json:"hosts"` // those of 'apply --json' or 'status --json', by node
	ExitCode      int               `json:"exit_code"`
	Drift         *Report           `json:"drift,omitempty"` // the newest check for drift
	metrics       map[int]string    // by shard
}

// writeMetrics writes the metrics that the shards have left; "" = nobody wants them.
func (r Report) writeMetrics(file string) error {
	if file == "" {
		return nil
	}
	return runmetrics.Merge(file, r.Job.Name, r.metrics)
}

// ShardState is the result of a shard.
type ShardState struct {
	Shard   int       `json:"shard"`
	Command string    `json:"command"`
	Code    int       `json:"exit_code"`
	Hosts   int       `json:"hosts"`
	Ended   time.Time `json:"ended"`
	Retried int       `json:"retried"`          // retries used before this result
	Stderr  string    `json:"stderr,omitempty"` // the end of it, where the shard failed
}

// host is what this package reads of a host in a report.
type host struct {
	Node    string   `json:"node"`
	Changed []string `json:"changed"`
	State   string   `json:"state"`
	Held    string   `json:"held"`
	Left    bool     `json:"left"`
	// Findings are those of doctor.
	Findings []struct {
		ID string `json:"id"`
	} `json:"findings"`
	Error *struct {
		Summary string `json:"summary"`
	} `json:"error"`
}

// flow is a test of verify.
type flow struct {
	Node   string        `json:"node"`
	Flow   string        `json:"flow"`
	Status verify.Status `json:"status"`
	Detail string        `json:"detail,omitempty"`
}

// tested are the hosts of a verify, with their tests, and the first that failed as an error.
func tested(flows []flow) (out []json.RawMessage) {
	type summary struct {
		Summary string `json:"summary"`
	}
	type result struct {
		Node  string   `json:"node"`
		Flows []flow   `json:"flows"`
		Error *summary `json:"error,omitempty"`
	}
	var list []*result
	for _, f := range flows {
		i := slices.IndexFunc(list, func(r *result) bool { return r.Node == f.Node })
		if i < 0 {
			i, list = len(list), append(list, &result{Node: f.Node})
		}
		r := list[i]
		if r.Flows = append(r.Flows, f); f.Status == verify.Fail && r.Error == nil {
			r.Error = &summary{f.Flow + ": " + f.Detail}
		}
	}
	for _, r := range list {
		b, err := json.Marshal(r)
		if err == nil { // text can be written
			out = append(out, b)
		}
	}
	return out
}

// severity is the order of exit codes, the worst first: that of one run over all hosts.
var severity = []int{130, 3, 8, 1, 5, 7, 4, 6, 9, 2}

// Gather makes one report of the results.
func Gather(job JobState, results []Result) (Report, error) {
	out := Report{FormatVersion: "1", Job: job, Shards: []ShardState{}, Hosts: []json.RawMessage{},
		metrics: map[int]string{}}
	names, codes := map[string]json.RawMessage{}, []int{}
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.Shard, b.Shard) })
	for _, r := range results {
		var report struct {
			Hosts []json.RawMessage `json:"hosts"`
			Flows []flow            `json:"flows"`
		}
		if len(r.Report) > 0 {
			if err := json.Unmarshal(r.Report, &report); err != nil {
				return out, fmt.Errorf("the report of shard %d cannot be read: %w", r.Shard, err)
			}
		}
		if r.Command == "verify" {
			report.Hosts = tested(report.Flows)
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
		if r.Metrics != "" {
			out.metrics[r.Shard] = r.Metrics
		}
		codes = append(codes, r.Code)
		out.Shards = append(out.Shards, ShardState{Shard: r.Shard, Command: r.Command, Code: r.Code,
			Hosts: len(report.Hosts), Ended: r.Ended, Retried: r.Retried, Stderr: r.Stderr})
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

package main

import (
	"encoding/json"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// applyJSON writes an apply as a stream of JSON lines: its events, and a summary last.
type applyJSON struct{ *ui.JSON }

func (applyJSON) plan(*engine.Report) {}

func (j applyJSON) result(r applied) { j.Raw(summaryJSON(r)) }

// jsonSummary is the last line of apply's JSON stream; the others are events
// (examples/schema/event.schema.json).
type jsonSummary struct {
	Type    string            `json:"type"`
	Pending int               `json:"pending"`
	Cluster *ui.Problem       `json:"cluster_error,omitempty"`
	Seconds float64           `json:"seconds"`
	Hosts   []jsonSummaryHost `json:"hosts"`
	// Pruned are the nodes that --prune removed from the cluster, or failed to.
	Pruned []jsonPruned `json:"pruned,omitempty"`
	// Objects of the cluster were made by this plan and are no longer in it.
	Objects  []jsonObject `json:"objects,omitempty"`
	ExitCode int          `json:"exit_code"`
}

type jsonPruned struct {
	Node  string      `json:"node"`
	Error *ui.Problem `json:"error,omitempty"`
}

type jsonSummaryHost struct {
	Node      string   `json:"node"`
	Changed   []string `json:"changed"`
	Unchanged int      `json:"unchanged"`
	// Removed is what the plan no longer named; Left is what of it stays, with why.
	Removed []string      `json:"removed,omitempty"`
	Left    []jsonRemoval `json:"left,omitempty"`
	NotRun  []string      `json:"not_run"`
	Error   *ui.Problem   `json:"error,omitempty"`
	Held    string        `json:"held,omitempty"` // why the host was not started
	// Rollback says what was rolled back after the error, if anything was.
	Rollback  *jsonRollback `json:"rollback,omitempty"`
	Mutations int64         `json:"mutations"`
}

type jsonRollback struct {
	Version string      `json:"version,omitempty"` // with which the Node is Ready again
	Left    []string    `json:"left"`              // what could not be rolled back
	Error   *ui.Problem `json:"error,omitempty"`   // what stopped the rollback
}

func summaryJSON(r applied) []byte {
	out := jsonSummary{Type: "summary", Pending: r.report.Pending(), Hosts: []jsonSummaryHost{}, ExitCode: r.code()}
	if r.report.Cluster != nil {
		p := clusterProblem(r.report)
		out.Cluster = &p
	}
	for _, n := range r.pruned {
		out.Pruned = append(out.Pruned, jsonPruned{n.Node, jsonProblem(n.Err, n.Failed, "")})
	}
	if r.summary == nil {
		for _, h := range r.report.Hosts {
			out.Hosts = append(out.Hosts, checkedHost(r.report, h))
		}
	} else {
		out.Seconds, out.Objects = r.summary.Duration.Seconds(), objectsJSON(r.summary.Objects)
		for _, h := range r.summary.Hosts {
			out.Hosts = append(out.Hosts, appliedHost(h))
		}
	}
	b, _ := json.Marshal(out)
	return b
}

// jsonProblem is a failure of a step, nil if there is none. step and source may be empty.
func jsonProblem(err error, step, source string) *ui.Problem {
	if err == nil {
		return nil
	}
	p := problemOf(err)
	p.Step, p.Source = step, source
	return &p
}

// checkedHost is the summary of a host on which nothing was changed.
func checkedHost(r *engine.Report, h engine.HostReport) jsonSummaryHost {
	j := jsonSummaryHost{Node: h.Node.Name, Changed: []string{}, NotRun: []string{}, Mutations: h.Mutations}
	if r.Cluster == nil {
		j.Error = jsonProblem(h.Err, "", "")
	}
	for _, s := range h.Steps {
		switch {
		case s.Result.Err != nil && j.Error == nil:
			j.Error = jsonProblem(s.Result.Err, s.Spec.ID, s.Spec.Source)
		case s.Result.Err == nil && s.Result.Change.NoOp():
			j.Unchanged++
		default:
			j.NotRun = append(j.NotRun, s.Spec.ID)
		}
	}
	return j
}

func appliedHost(h engine.HostSummary) jsonSummaryHost {
	j := jsonSummaryHost{Node: h.Node, Changed: append([]string{}, h.Changed...), Unchanged: len(h.Unchanged),
		NotRun: append([]string{}, h.NotRun...), Held: h.Held, Mutations: h.Mutations}
	for _, r := range h.Removed {
		j.Removed = append(j.Removed, r.Key.String())
	}
	for _, r := range h.Left {
		j.Left = append(j.Left, removalJSON(r))
	}
	j.Error = jsonProblem(h.Err, h.Failed, h.Source)
	if t := h.Rollback; t != nil {
		j.Rollback = &jsonRollback{Version: t.Version, Left: append([]string{}, t.Left...),
			Error: jsonProblem(t.Err, t.Failed, "")}
	}
	return j
}

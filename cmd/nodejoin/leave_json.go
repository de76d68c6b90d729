package main

import (
	"encoding/json"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
)

// leaveJSON writes a leave as a stream of JSON lines: its events, and a summary last.
type leaveJSON struct{ *ui.JSON }

func (leaveJSON) plan(left) {}

func (j leaveJSON) result(r left) { j.Raw(leaveSummaryJSON(r)) }

// jsonLeave is the last line of leave's JSON stream (examples/schema/leave.schema.json);
// the others are events.
type jsonLeave struct {
	Type     string          `json:"type"`
	Cluster  *ui.Problem     `json:"cluster_error,omitempty"`
	Seconds  float64         `json:"seconds"`
	Hosts    []jsonLeaveHost `json:"hosts"`
	ExitCode int             `json:"exit_code"`
}

type jsonLeaveHost struct {
	Node      string          `json:"node"`
	Items     []jsonLeaveItem `json:"items"`
	Evict     []string        `json:"evict,omitempty"`
	NodeGone  bool            `json:"node_gone"`
	Left      bool            `json:"left"` // it is done
	Files     []string        `json:"files,omitempty"`
	Error     *ui.Problem     `json:"error,omitempty"`
	Mutations int64           `json:"mutations"`
}

type jsonLeaveItem struct {
	Key    string       `json:"key"`
	Action steps.Action `json:"action,omitempty"` // still to be done
	Stays  string       `json:"stays,omitempty"`
}

func leaveSummaryJSON(r left) []byte {
	out := jsonLeave{Type: "summary", Hosts: []jsonLeaveHost{}, ExitCode: r.code()}
	if r.report.Cluster != nil {
		out.Cluster = jsonProblem(r.report.Cluster, "", "")
	}
	for n, h := range r.report.Hosts {
		j := leaveHostJSON(h)
		if r.summary != nil {
			j.add(r.summary.Hosts[n])
		}
		if r.report.Cluster != nil {
			j.Error = nil // it is that of the cluster
		}
		out.Hosts = append(out.Hosts, j)
	}
	if r.summary != nil {
		out.Seconds = r.summary.Duration.Seconds()
	}
	b, _ := json.Marshal(out)
	return b
}

// leaveHostJSON is what a leave would do on a host.
func leaveHostJSON(h engine.LeaveHost) jsonLeaveHost {
	j := jsonLeaveHost{Node: h.Node.Name, Error: jsonProblem(h.Err, "", "")}
	j.setItems(h.Items)
	for _, p := range h.Evict {
		j.Evict = append(j.Evict, p.String())
	}
	return j
}

// add puts in what a leave did on the host.
func (j *jsonLeaveHost) add(h engine.LeaveResult) {
	j.setItems(h.Items)
	j.NodeGone, j.Files, j.Mutations = h.NodeGone, h.Files, h.Mutations
	j.Left, j.Error = h.Err == nil, jsonProblem(h.Err, "", "")
}

func (j *jsonLeaveHost) setItems(items []executor.LeaveItem) {
	j.Items = []jsonLeaveItem{}
	for _, i := range items {
		j.Items = append(j.Items, jsonLeaveItem{i.Key.String(), i.Change.Action, i.Left})
	}
}

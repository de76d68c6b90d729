package jsonout

import (
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
)

// Leave is the last line of leave's JSON stream (examples/schema/leave.schema.json);
// the others are events.
type Leave struct {
	Type     string      `json:"type"`
	Cluster  *ui.Problem `json:"cluster_error,omitempty"`
	Seconds  float64     `json:"seconds"`
	Hosts    []leaveHost `json:"hosts"`
	ExitCode int         `json:"exit_code"`
}

type leaveHost struct {
	Node     string      `json:"node"`
	Items    []leaveItem `json:"items"`
	Evict    []string    `json:"evict,omitempty"`
	NodeGone bool        `json:"node_gone"`
	Left     bool        `json:"left"` // it is done
	Files    []string    `json:"files,omitempty"`
	// Others are of the cluster's CNI.
	Others    []executor.Other `json:"others,omitempty"`
	Error     *ui.Problem      `json:"error,omitempty"`
	Mutations int64            `json:"mutations"`
}

type leaveItem struct {
	Key    string       `json:"key"`
	Action steps.Action `json:"action,omitempty"` // still to be done
	Stays  string       `json:"stays,omitempty"`
}

// OfLeave is the summary of a leave; sum is nil if there was nothing to do.
func OfLeave(r *engine.LeaveReport, sum *engine.LeaveSummary, code int) Leave {
	out := Leave{Type: "summary", Hosts: []leaveHost{}, ExitCode: code}
	if r.Cluster != nil {
		out.Cluster = problem(r.Cluster, "", "")
	}
	for n, h := range r.Hosts {
		j := leaveHostOf(h)
		if sum != nil {
			j.add(sum.Hosts[n])
		}
		if r.Cluster != nil {
			j.Error = nil // it is that of the cluster
		}
		out.Hosts = append(out.Hosts, j)
	}
	if sum != nil {
		out.Seconds = sum.Duration.Seconds()
	}
	return out
}

// leaveHostJSON is what a leave would do on a host.
func leaveHostOf(h engine.LeaveHost) leaveHost {
	j := leaveHost{Node: h.Node.Name, Error: problem(h.Err, "", "")}
	j.setItems(h.Items)
	j.Others = h.Others
	for _, p := range h.Evict {
		j.Evict = append(j.Evict, p.String())
	}
	return j
}

// add puts in what a leave did on the host.
func (j *leaveHost) add(h engine.LeaveResult) {
	j.setItems(h.Items)
	j.NodeGone, j.Files, j.Mutations = h.NodeGone, h.Files, h.Mutations
	j.Left, j.Error = h.Err == nil, problem(h.Err, "", "")
}

func (j *leaveHost) setItems(items []executor.LeaveItem) {
	j.Items = []leaveItem{}
	for _, i := range items {
		j.Items = append(j.Items, leaveItem{i.Key.String(), i.Change.Action, i.Left})
	}
}

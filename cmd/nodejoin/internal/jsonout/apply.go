package jsonout

import (
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// Summary is the last line of apply's JSON stream; the others are events
// (examples/schema/event.schema.json).
type Summary struct {
	Type string `json:"type"`
	// Environment is the one of --env; "" = none.
	Environment string        `json:"environment,omitempty"`
	Pending     int           `json:"pending"`
	Cluster     *ui.Problem   `json:"cluster_error,omitempty"`
	Seconds     float64       `json:"seconds"`
	Hosts       []summaryHost `json:"hosts"`
	// Pruned are the nodes that --prune removed from the cluster, or failed to.
	Pruned []pruned `json:"pruned,omitempty"`
	// Objects of the cluster were made by this plan and are no longer in it.
	Objects  []object `json:"objects,omitempty"`
	ExitCode int      `json:"exit_code"`
}

type pruned struct {
	Node  string      `json:"node"`
	Error *ui.Problem `json:"error,omitempty"`
}

type summaryHost struct {
	Node      string   `json:"node"`
	Changed   []string `json:"changed"`
	Unchanged int      `json:"unchanged"`
	// Removed is what the plan no longer named; Left is what of it stays, with why.
	Removed []string  `json:"removed,omitempty"`
	Left    []removal `json:"left,omitempty"`
	// Moved are former Nodes of the machine that were deleted.
	Moved  []string    `json:"moved,omitempty"`
	NotRun []string    `json:"not_run"`
	Error  *ui.Problem `json:"error,omitempty"`
	Held   string      `json:"held,omitempty"` // why the host was not started
	// Rollback says what was rolled back after the error, if anything was.
	Rollback  *rollback `json:"rollback,omitempty"`
	Mutations int64     `json:"mutations"`
}

type rollback struct {
	Version string      `json:"version,omitempty"` // with which the Node is Ready again
	Left    []string    `json:"left"`              // what could not be rolled back
	Error   *ui.Problem `json:"error,omitempty"`   // what stopped the rollback
}

// OfApply is the summary of an apply in an environment, or none; sum is nil if there was nothing to do.
func OfApply(environment string, r *engine.Report, sum *engine.Summary, prunes []engine.PruneResult,
	code int) Summary {
	out := Summary{Type: "summary", Environment: environment, Pending: r.Pending(), Hosts: []summaryHost{},
		ExitCode: code}
	if r.Cluster != nil {
		p := ui.ClusterProblem(r.Cluster)
		out.Cluster = &p
	}
	for _, n := range prunes {
		out.Pruned = append(out.Pruned, pruned{n.Node, problem(n.Err, n.Failed, "")})
	}
	if sum == nil {
		for _, h := range r.Hosts {
			out.Hosts = append(out.Hosts, checkedHost(r, h))
		}
	} else {
		out.Seconds, out.Objects = sum.Duration.Seconds(), objectsOf(sum.Objects)
		for _, h := range sum.Hosts {
			out.Hosts = append(out.Hosts, appliedHost(h))
		}
	}
	return out
}

// checkedHost is the summary of a host on which nothing was changed.
func checkedHost(r *engine.Report, h engine.HostReport) summaryHost {
	j := summaryHost{Node: h.Node.Name, Changed: []string{}, NotRun: []string{}, Mutations: h.Mutations}
	if r.Cluster == nil {
		j.Error = problem(h.Err, "", "")
	}
	for _, s := range h.Steps {
		switch {
		case s.Result.Err != nil && j.Error == nil:
			j.Error = problem(s.Result.Err, s.Spec.ID, s.Spec.Source)
		case s.Result.Err == nil && s.Result.Change.NoOp():
			j.Unchanged++
		default:
			j.NotRun = append(j.NotRun, s.Spec.ID)
		}
	}
	return j
}

func appliedHost(h engine.HostSummary) summaryHost {
	j := summaryHost{Node: h.Node, Changed: append([]string{}, h.Changed...), Unchanged: len(h.Unchanged),
		NotRun: append([]string{}, h.NotRun...), Held: h.Held, Mutations: h.Mutations, Moved: h.Moved}
	for _, r := range h.Removed {
		j.Removed = append(j.Removed, r.Key.String())
	}
	for _, r := range h.Left {
		j.Left = append(j.Left, removalOf(r))
	}
	j.Error = problem(h.Err, h.Failed, h.Source)
	if t := h.Rollback; t != nil {
		j.Rollback = &rollback{Version: t.Version, Left: append([]string{}, t.Left...),
			Error: problem(t.Err, t.Failed, "")}
	}
	return j
}

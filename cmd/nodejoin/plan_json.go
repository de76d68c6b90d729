package main

import (
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
)

// jsonStep is a step in the JSON output of plan and status.
type jsonStep struct {
	Address string       `json:"address"`
	Kind    string       `json:"kind"`
	Title   string       `json:"title,omitempty"`
	Source  string       `json:"source,omitempty"`
	Change  steps.Change `json:"change"`
	Error   *steps.Error `json:"error,omitempty"`
}

// jsonRemoval is something that the plan no longer names.
type jsonRemoval struct {
	Key    string       `json:"key"`
	Step   string       `json:"step"` // that made it
	Action steps.Action `json:"action,omitempty"`
	// Restored: it was there before nodejoin, and is as it was then.
	Restored bool   `json:"restored,omitempty"`
	Left     string `json:"left,omitempty"` // why it stays, or what of it
}

type jsonHost struct {
	Node         string               `json:"node"`
	Address      string               `json:"address"`
	State        string               `json:"state"` // in_sync, drifted, unfinished, not_joined, not_reachable, failed
	Facts        any                  `json:"facts,omitempty"`
	Upgrade      *engine.Upgrade      `json:"upgrade,omitempty"`
	Interruption *engine.Interruption `json:"interruption,omitempty"`
	Steps        []jsonStep           `json:"steps"`
	// Removals are what the plan no longer names.
	Removals  []jsonRemoval `json:"removals,omitempty"`
	Error     *ui.Problem   `json:"error,omitempty"`
	Mutations int64         `json:"mutations"`
	// UnverifiedSince is the start of a run that was stopped before it had verified or
	// rolled back what it changed.
	UnverifiedSince *time.Time `json:"unverified_since,omitempty"`
	// LastRun is the last run that changed the host, by the note it left there.
	LastRun *executor.RunNote `json:"last_run,omitempty"`
}

// jsonPlan is the JSON output of plan and status (examples/schema/plan.schema.json).
type jsonPlan struct {
	FormatVersion string      `json:"format_version"`
	Pending       int         `json:"pending"`
	Cluster       *ui.Problem `json:"cluster_error,omitempty"`
	Hosts         []jsonHost  `json:"hosts"`
	// FormerNodes were joined by this plan and are no longer in it.
	FormerNodes []jsonFormer `json:"former_nodes,omitempty"`
	// Objects of the cluster were made by this plan and are no longer in it.
	Objects []jsonObject `json:"objects,omitempty"`
}

// jsonObject is an object of the cluster that the plan no longer names.
type jsonObject struct {
	Object string      `json:"object"`
	Left   string      `json:"left,omitempty"` // why it stays; absent: it is deleted
	Error  *ui.Problem `json:"error,omitempty"`
}

func objectsJSON(list []engine.ObjectRemoval) (out []jsonObject) {
	for _, o := range list {
		out = append(out, jsonObject{o.String(), o.Left, jsonProblem(o.Err, "", "")})
	}
	return out
}

// jsonFormer is a Node that was joined by this plan and is no longer in it.
type jsonFormer struct {
	Node    string `json:"node"`
	Ready   bool   `json:"ready"`
	Address string `json:"address,omitempty"`
}

func planJSON(p *plan.Compiled, r *engine.Report) jsonPlan {
	out := jsonPlan{FormatVersion: "1", Pending: r.Pending(), Hosts: []jsonHost{}}
	if r.Cluster != nil {
		pr := clusterProblem(r)
		if p.Cluster != nil {
			pr.Source = p.Cluster.Source
		}
		out.Cluster = &pr
	}
	out.Objects = objectsJSON(r.Objects)
	for _, n := range r.Former {
		out.FormerNodes = append(out.FormerNodes, jsonFormer{Node: n.Name, Ready: n.Ready, Address: n.InternalIP})
	}
	for _, h := range r.Hosts {
		out.Hosts = append(out.Hosts, planHostJSON(h))
	}
	return out
}

func removalJSON(r executor.Removal) jsonRemoval {
	return jsonRemoval{Key: r.Key.String(), Step: r.Step, Action: r.Change.Action, Restored: r.Restored, Left: r.Left}
}

func planHostJSON(h engine.HostReport) jsonHost {
	j := jsonHost{Node: h.Node.Name, Address: h.Node.Address, State: ui.HostState(h), Steps: []jsonStep{},
		Mutations: h.Mutations, LastRun: h.Last}
	if h.Snapshot != nil {
		j.UnverifiedSince = &h.Snapshot.Begun
	}
	for _, r := range h.Removals.Items {
		j.Removals = append(j.Removals, removalJSON(r))
	}
	if h.Err == nil {
		j.Facts, j.Upgrade, j.Interruption = h.Facts, h.Upgrade, h.Interruption
	} else {
		j.Error = jsonProblem(h.Err, "", "")
	}
	for _, s := range h.Steps {
		j.Steps = append(j.Steps, jsonStep{Address: h.Node.Address + "." + s.Spec.ID, Kind: s.Spec.Kind, Title: s.Spec.Title,
			Source: s.Spec.Source, Change: s.Result.Change, Error: s.Result.Err})
	}
	return j
}

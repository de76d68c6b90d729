package jsonout

import (
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
)

// step is a step in the JSON output of plan and status.
type step struct {
	Address string       `json:"address"`
	Kind    string       `json:"kind"`
	Title   string       `json:"title,omitempty"`
	Source  string       `json:"source,omitempty"`
	Change  steps.Change `json:"change"`
	Error   *steps.Error `json:"error,omitempty"`
}

// removal is something that the plan no longer names.
type removal struct {
	Key    string       `json:"key"`
	Step   string       `json:"step"` // that made it
	Action steps.Action `json:"action,omitempty"`
	// Restored: it was there before nodejoin, and is as it was then.
	Restored bool   `json:"restored,omitempty"`
	Left     string `json:"left,omitempty"` // why it stays, or what of it
}

type planHost struct {
	Node         string               `json:"node"`
	Address      string               `json:"address"`
	State        string               `json:"state"` // in_sync, drifted, unfinished, not_joined, not_reachable, failed
	Facts        any                  `json:"facts,omitempty"`
	Upgrade      *engine.Upgrade      `json:"upgrade,omitempty"`
	Interruption *engine.Interruption `json:"interruption,omitempty"`
	Steps        []step               `json:"steps"`
	// Moved are the Nodes that the machine is in the cluster as, under former names; they are deleted.
	Moved []formerNode `json:"moved,omitempty"`
	// Removals are what the plan no longer names.
	Removals  []removal   `json:"removals,omitempty"`
	Error     *ui.Problem `json:"error,omitempty"`
	Mutations int64       `json:"mutations"`
	// UnverifiedSince is the start of a run that was stopped before it had verified or
	// rolled back what it changed.
	UnverifiedSince *time.Time `json:"unverified_since,omitempty"`
	// LastRun is the last run that changed the host, by the note it left there.
	LastRun *executor.RunNote `json:"last_run,omitempty"`
	// Continue is the command that continues an unfinished leave.
	Continue string `json:"continue,omitempty"`
	// Guard is what the service of the node saw last, Paused an operator's order that it fixes nothing.
	Guard  *steps.GuardState `json:"guard,omitempty"`
	Paused *steps.GuardPause `json:"paused,omitempty"`
	// Credentials are those that the plan's steps have on the machine, with their ends.
	Credentials []steps.Credential `json:"credentials,omitempty"`
}

// Plan is the JSON output of plan and status (examples/schema/plan.schema.json).
type Plan struct {
	FormatVersion string      `json:"format_version"`
	Environment   string      `json:"environment,omitempty"` // of --env
	Pending       int         `json:"pending"`
	Cluster       *ui.Problem `json:"cluster_error,omitempty"`
	Hosts         []planHost  `json:"hosts"`
	// Desired is what the plan says; absent from status.
	Desired *desired `json:"desired,omitempty"`
	// Data is what the data blocks of the plan have read.
	Data []data `json:"data,omitempty"`
	// FormerNodes were joined by this plan and are no longer in it.
	FormerNodes []formerNode `json:"former_nodes,omitempty"`
	// Objects of the cluster were made by this plan and are no longer in it.
	Objects []object `json:"objects,omitempty"`
}

// data is what a data block has read.
type data struct {
	Address   string `json:"address"`
	From      string `json:"from"`
	Sensitive bool   `json:"sensitive,omitempty"`
	SHA256    string `json:"sha256,omitempty"` // absent for what is sensitive
	Source    string `json:"source"`
}

// object is an object of the cluster that the plan no longer names.
type object struct {
	Object string `json:"object"`
	Left   string `json:"left,omitempty"` // why it stays; absent: it is deleted
	// Finishes says why it is written instead: a run that was stopped left it unfinished.
	Finishes string      `json:"finishes,omitempty"`
	Error    *ui.Problem `json:"error,omitempty"`
}

func objectsOf(list []engine.ObjectRemoval) (out []object) {
	for _, o := range list {
		out = append(out, object{o.String(), o.Left, o.Finishes, problem(o.Err, "", "")})
	}
	return out
}

// formerNode is a Node that was joined by this plan and is no longer in it.
type formerNode struct {
	Node    string `json:"node"`
	Ready   bool   `json:"ready"`
	Address string `json:"address,omitempty"`
}

func formerNodes(list []kube.Node) (out []formerNode) {
	for _, n := range list {
		out = append(out, formerNode{Node: n.Name, Ready: n.Ready, Address: n.InternalIP})
	}
	return out
}

// OfPlan is a plan, or a status, as JSON.
func OfPlan(p *plan.Compiled, r *engine.Report) Plan {
	out := Plan{FormatVersion: "1", Environment: p.Environment, Pending: r.Pending(), Hosts: []planHost{}}
	if r.Cluster != nil {
		pr := ui.ClusterProblem(r.Cluster)
		if p.Cluster != nil {
			pr.Source = p.Cluster.Source
		}
		out.Cluster = &pr
	}
	for _, d := range p.Data {
		out.Data = append(out.Data, data(d))
	}
	out.Objects = objectsOf(r.Objects)
	out.FormerNodes = formerNodes(r.Former)
	for _, h := range r.Hosts {
		out.Hosts = append(out.Hosts, planHostOf(h))
	}
	return out
}

// WithDesired adds what the plan says.
func (p Plan) WithDesired(c *plan.Compiled) (Plan, error) {
	var err error
	p.Desired, err = desiredOf(c)
	return p, err
}

func removalOf(r executor.Removal) removal {
	return removal{Key: r.Key.String(), Step: r.Step, Action: r.Change.Action, Restored: r.Restored, Left: r.Left}
}

func planHostOf(h engine.HostReport) planHost {
	j := planHost{Node: h.Node.Name, Address: h.Node.Address, State: ui.HostState(h), Steps: []step{},
		Mutations: h.Mutations, LastRun: h.Last, Guard: h.Guard, Paused: h.Paused, Credentials: h.Credentials,
		Continue: ui.Continue(h), Moved: formerNodes(h.Moved)}
	if h.Snapshot != nil {
		j.UnverifiedSince = &h.Snapshot.Begun
	}
	for _, r := range h.Removals.Items {
		j.Removals = append(j.Removals, removalOf(r))
	}
	if h.Err == nil {
		j.Facts, j.Upgrade, j.Interruption = h.Facts, h.Upgrade, h.Interruption
	} else {
		j.Error = problem(h.Err, "", "")
	}
	for _, s := range h.Steps {
		j.Steps = append(j.Steps, step{Address: h.Node.Address + "." + s.Spec.ID, Kind: s.Spec.Kind, Title: s.Spec.Title,
			Source: s.Spec.Source, Change: s.Result.Change, Error: s.Result.Err})
	}
	return j
}

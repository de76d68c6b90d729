// Package engine walks the graph of a compiled plan over all its hosts: check,
// apply, verify, reconnect, report. It emits events and never prints.
package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// Options of a run. Connect and Cluster are handed in by the command.
type Options struct {
	// Connect opens a connection to a node; errors are *transport.ConnectError where they are known.
	Connect func(ctx context.Context, n plan.Node) (transport.Conn, error)
	// Cluster opens the plan's cluster; called once a run, and only when a step needs it.
	Cluster func(ctx context.Context) (kube.API, error)
	// Emit receives events, one at a time.
	Emit func(event.Event)
	// Parallel bounds the hosts worked on at once; 0 = 10.
	Parallel int
	// More reports whether one host more than Parallel, and than earlier calls allowed, may be worked on at once. It is
	// asked when a host is done and others had to wait for it. nil = no.
	More func() bool
	// AllowDowngrade lets nodes go back to an older version of Kubernetes.
	AllowDowngrade bool
	// Drain says what may be done to the pods of a Node whose kubelet or runtime stops.
	Drain kube.DrainOptions
	// Holder is who changes hosts and cluster; they are locked for it while they are
	// changed. Without a Run nothing is locked.
	Holder steps.LockHolder
	// Version of nodejoin and PlanDigest of the plan's files are noted on hosts and
	// Nodes that a run with a Holder has changed.
	Version, PlanDigest string
	// Members are the names of all nodes of the plan, also of those that this run leaves
	// out. nil = whether the cluster has others that the plan joined is not asked.
	Members []string
	// Mine reports whether a Node that the plan no longer names is reported by this run; nil = each is. Of the runs that
	// share a plan one reports it.
	Mine func(node string) bool
	// Shard is the part of the plan's nodes that this run is for, "3/8"; "" = all. Runs of several shards go on at the
	// same time, and keep to one rollout.
	Shard string
	// Group names the runs whose failures count together for the rollout, of several shards.
	Group string
	// TurnEvery is the longest time between two attempts to begin beside other shards; 0 = 2 seconds. FailureFor is how
	// long a failure counts for them; 0 = an hour.
	TurnEvery, FailureFor time.Duration
	// InTurn: the run has its turn beside other shards already (Session.Turn).
	InTurn bool
	// Now is the time by which the plan's times for reboots are judged; nil = time.Now.
	Now func() time.Time
	// Resume gives what lets the machine that this process runs on finish its part of the
	// plan after a boot, or why nothing can. nil = that machine is not rebooted.
	Resume func(n plan.Node, f host.Facts) (*Resume, error)
	// Gone reports whether a holder's run has ended, as far as can be seen from here. nil = never.
	Gone func(steps.LockHolder) bool
	// PruneChanged removes what the plan no longer names even if it was changed since.
	PruneChanged bool
	// Pausable: an apply of a machine by itself ends before its next step once an operator has paused the node.
	Pausable bool
	// Done gets the result of each host that an apply has come to. nil = nobody does.
	Done func(HostSummary)
}

// Report is what a check of all hosts found.
type Report struct {
	Hosts   []HostReport
	Rollout plan.Rollout // of the plan
	Cluster *steps.Error // the cluster could not be asked; nil = fine or not needed
	// Former are the Nodes that the plan joined and no longer names, by name.
	Former []kube.Node
	// Objects are the objects of the cluster that the plan made and no longer names.
	Objects []ObjectRemoval
}

// HostReport is what a check of one host found.
type HostReport struct {
	Node  plan.Node
	Facts host.Facts
	// KubeNode is the Node object; nil: there is none, or the cluster was not asked.
	KubeNode *kube.Node
	// Moved are the Nodes that the machine has in the cluster under former names of its node (moved blocks).
	Moved        []kube.Node
	Upgrade      *Upgrade      // nil = the version of Kubernetes stays
	Interruption *Interruption // nil = pods notice nothing
	Steps        []StepReport  // in the plan's order; empty when Err is set
	Err          error         // *transport.ConnectError or another; the host could not be checked
	Mutations    int64         // mutating calls on the host during the check: always 0
	// Last and LastUnknown are those of steps.CheckReply.
	Last        *executor.RunNote
	LastUnknown bool
	// Untouched is that of steps.CheckReply: nodejoin has nothing on the machine.
	Untouched bool
	// Snapshot is that of steps.CheckReply: an earlier run was stopped before it had verified
	// or rolled back what it changed.
	Snapshot *executor.OpenSnapshot
	// Removals is what the plan no longer names; of a node with a part of its steps none is
	// looked for.
	Removals executor.Removals
	// Guard, Paused and Credentials are those of executor.CheckReply.
	Guard       *steps.GuardState
	Paused      *steps.GuardPause
	Credentials []steps.Credential
}

// StepReport is one step's check.
type StepReport struct {
	Spec   steps.Spec
	Place  steps.Place
	Result steps.Result
}

// Reachable reports whether at least one host could be checked.
func (r *Report) Reachable() bool {
	return slices.ContainsFunc(r.Hosts, func(h HostReport) bool { return h.Err == nil })
}

// Pending counts steps with something to do, and snapshots to close.
func (r *Report) Pending() int {
	n := 0
	for _, h := range r.Hosts {
		if h.Snapshot != nil {
			n++ // it is to be ended
		}
	}
	for _, of := range r.Actions() {
		n += of
	}
	return n
}

// Actions counts the steps with something to do, by action.
func (r *Report) Actions() map[steps.Action]int {
	out := map[steps.Action]int{}
	for action, kinds := range r.Kinds() {
		for _, n := range kinds {
			out[action] += n
		}
	}
	return out
}

// Kinds counts the steps with something to do, by action and kind; of what is removed there is no step, and its sort
// counts. A state of the cluster that several nodes need counts once, because one of them makes it for all.
func (r *Report) Kinds() map[steps.Action]map[string]int {
	out := map[steps.Action]map[string]int{}
	count := func(a steps.Action, kind string) {
		if out[a] == nil {
			out[a] = map[string]int{}
		}
		out[a][kind]++
	}
	shared := map[string]bool{}
	for _, o := range r.Objects {
		switch {
		case o.Finishes != "":
			count(steps.ActionUpdate, "object")
		case o.Left == "":
			count(steps.ActionRemove, "object")
		}
	}
	for _, h := range r.Hosts {
		for range h.Moved {
			count(steps.ActionRemove, "node")
		}
		for _, gone := range h.Removals.Removing() {
			count(gone.Change.Action, string(gone.Key.Prefix))
		}
		for _, s := range h.Steps {
			if s.Result.Err != nil || s.Result.Change.NoOp() {
				continue
			}
			if k, _ := kinds.Lookup(s.Spec.Kind); k.Shared {
				key := sharedKey(s.Spec)
				if shared[key] {
					continue
				}
				shared[key] = true
			}
			count(s.Result.Change.Action, s.Spec.Kind)
		}
	}
	return out
}

// sharedKey is the same for steps of several nodes that want one state of the cluster.
func sharedKey(s steps.Spec) string { return s.Kind + " " + string(s.Args.JSON()) }

// Summary is the result of an apply.
type Summary struct {
	Hosts []HostSummary
	// Objects of the cluster that the plan no longer named; ObjectsErr is why one is still there.
	Objects    []ObjectRemoval
	ObjectsErr error
	Duration   time.Duration
}

// HostSummary is the result of an apply on one host.
type HostSummary struct {
	Node      string
	Changed   []string // step ids
	Unchanged []string
	Removed   []executor.Removal // what the plan no longer named
	Left      []executor.Removal // and what of it stays, with why
	Moved     []string           // former Nodes that were deleted
	NotRun    []string           // left for the next apply
	Failed    string             // step id; "" = none
	Source    string             // of the failed step
	// Held says why the rollout did not start the host; "" = it was started.
	Held string
	// GoesDown: it is the machine that this process runs on, ready for RebootSelf. Err says so.
	GoesDown bool
	Err      error     // *steps.Error, *transport.ConnectError or another
	Rollback *Rollback // nil = nothing was rolled back
	// Mutations counts mutating host calls; after a lost connection those that were
	// not reported are missing.
	Mutations int64
	Took      time.Duration // since its turn came
}

// Rollback is the result of rolling a host back after a step had failed.
type Rollback struct {
	// Version of the kubelet that the Node is Ready with again; "" = the machine was no
	// node before, or its Node was not Ready.
	Version string
	Left    []string // what could not be restored, each with why
	Failed  string   // where the rollback ended; "" = it is done
	Err     error    // nil = the host works as before
}

// String is the result in a sentence.
func (r *Rollback) String() string {
	out := "What this run had changed on the machine was rolled back"
	switch {
	case r.Err != nil:
		return fmt.Sprintf("The rollback failed as well, at %s: %s; the next apply continues from there", r.Failed,
			steps.AsError(r.Err).Error())
	case r.Version != "":
		out += ": its Node is Ready again with " + r.Version
	}
	if len(r.Left) > 0 {
		out += "; not restored: " + strings.Join(r.Left, "; ")
	}
	return out
}

// Upgrade is a change of the version of a node's Kubernetes programs.
type Upgrade struct {
	From string `json:"from"` // what the kubelet reports in the Node
	To   string `json:"to"`   // what the plan wants
	// Downgrade: To is older.
	Downgrade bool `json:"downgrade,omitempty"`
	// Notes say what the other version means for how the programs are run.
	Notes []string `json:"notes,omitempty"`
}

// Interruption is what pods of a registered Node would notice of an apply.
type Interruption struct {
	Services []string `json:"services"`           // those of kubelet and container runtime that stop
	Networks []string `json:"networks,omitempty"` // HNS networks that are removed, on which pods may be
	Reboot   bool     `json:"reboot,omitempty"`   // the machine is rebooted
	// Evict are the pods that are drained from the Node before, as it is Ready.
	Evict []string `json:"evict,omitempty"`

	first string // id of the first step that stops one
}

func (i *Interruption) reboots() bool { return i != nil && i.Reboot }

// Resume is what lets a machine finish its plan by itself after a boot.
type Resume struct {
	Steps   []steps.Spec // that make it so
	Service string       // that does it
	Log     string       // of what it did, a path on the machine
}

package verify

import (
	"context"
	"errors"
	"sync"
	"time"

	"nodejoin/steps/kube"
)

// Options of Run.
type Options struct {
	API     kube.API
	Targets []Target
	// Image is that of the web server and of what asks it, for an OS and a build of
	// Windows, "10.0.20348"; an error says why there is none.
	Image     func(os, build string) (string, error)
	DNSDomain string // "cluster.local"
	Outbound  string // URL outside of the cluster's pod network that pods ask; it may answer anything
	// Outside asks a URL from outside of the cluster. An error means that nothing answered.
	Outside func(ctx context.Context, url string) error
	// Holder is who verifies, noted on the namespace; Gone reports that a holder no longer runs.
	Holder string
	Gone   func(holder string) bool
	// Start bounds the time until a pod runs, with the fetching of its image; Answer the
	// time until what must be asked answers; Clean the time until the namespace is gone.
	Start, Answer, Clean time.Duration
	// Reporter gets what a flow of a node waits for, and each Result as it comes. It is
	// called by several goroutines.
	Reporter Reporter
}

// Reporter gets the progress of a verification.
type Reporter interface {
	Waits(node, flow, seen string)
	Done(Result)
}

// Target is a node of the plan.
type Target struct {
	Node    string
	Version string // that its kubelet is to have, "1.36.3"
}

// Defaults of the bounds. The image of a Windows server has some GB.
const (
	DefaultStart  = 20 * time.Minute
	DefaultAnswer = 2 * time.Minute
	DefaultClean  = 2 * time.Minute
)

// Status of a flow.
type Status string

const (
	Pass        Status = "pass"
	Fail        Status = "fail"
	NotPossible Status = "not_possible" // it cannot be tried here; Detail says why
)

// Flow is one thing that is looked at on each node.
type Flow struct{ Name, What string }

// Flows in the order in which they are reported.
var Flows = []Flow{
	{"node", "the Node is Ready, with the version of the plan"},
	{"web-server", "the sample web server runs on the node"},
	{"node-to-pod", "the kubelet reaches it"},
	{"pod-to-pod", "a pod of the same node reaches it"},
	{"pod-to-node", "a pod of the node reaches the node: its kubelet"},
	{"pod-to-linux", "a pod of the node reaches one of a Linux node"},
	{"pod-to-windows", "a pod of the node reaches one of another Windows node"},
	{"service", "a pod reaches it by the address of its service"},
	{"name", "a pod reaches it by the whole name of its service"},
	{"short-name", "a pod of the same namespace reaches it by the short name of its service"},
	{"pod-name", "a pod reaches the one of a web server by the name of the pod"},
	{"node-port", "it is reached from outside, by a port of the node"},
	{"outbound", "a pod reaches what is outside of the cluster"},
	{"outbound-name", "a pod reaches what is outside of the cluster by a name"},
	{"logs", "the log of a pod can be read"},
	{"exec", "a command runs in a container of the node"},
	{"port-forward", "a port of a pod can be forwarded to this computer"},
	{"metrics", "the kubelet gives the usage of the node, which metrics-server and the autoscalers read"},
	{"node-port-local", "the node reaches its own node port"},
	{"service-from-node", "the node reaches the address of a service"},
}

// Result of a flow on one node.
type Result struct {
	Node   string
	Flow   string
	Status Status
	Detail string
	Took   time.Duration
}

// run is the state of one Run.
type run struct {
	Options
	ns    string
	nodes map[string]kube.Node

	mu      sync.Mutex
	results map[string]map[string]Result // by node and flow
}

// done keeps a result; the first one of a flow counts.
func (r *run) done(res Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results[res.Node] == nil {
		r.results[res.Node] = map[string]Result{}
	}
	if _, there := r.results[res.Node][res.Flow]; there {
		return
	}
	r.results[res.Node][res.Flow] = res
	r.Reporter.Done(res)
}

// not keeps that a flow cannot be tried.
func (r *run) not(node, flow, why string) {
	r.done(Result{Node: node, Flow: flow, Status: NotPossible, Detail: why})
}

// lookMost bounds the pause between two looks.
const lookMost = 2 * time.Second

// unasked reports whether the API server did not answer, in which case a wait continues.
func unasked(err error) bool { return errors.Is(err, kube.ErrUnreachable) }

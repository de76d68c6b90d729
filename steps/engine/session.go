package engine

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// Session is one run over the hosts of a plan. Connections that Check opened
// serve Apply as well. Close it in the end.
type Session struct {
	plan  *plan.Compiled
	opt   Options
	emitM sync.Mutex
	hosts []*hostRun
	slots *slots
	seen  seenLeases

	openOnce sync.Once
	api      kube.API
	openErr  error
	infoOnce sync.Once
	info     kube.Info
	infoErr  error
	reported sync.Map     // ids of runs that died and were reported
	kept     atomic.Int64 // connections that were open after the check
	setOnce  sync.Once
	setErr   error

	nodesOnce sync.Once
	listed    []kube.Node // by nodes
	listErr   error
	stays     sync.Map        // Nodes of other machines, whatever the moved blocks of the plan say
	former    []ObjectRemoval // as the check found them

	namesOnce sync.Once
	renamed   []string // former names of the plan
	firstOnce sync.Once
	first     kube.SetState // by firstSet
	firstErr  error
	turns     sync.Map // of once, by sharedKey: what nodes share is made by one, and seen by the others
	checked   sync.Map // of sharedChecks

	contents transport.Contents // of the controller
}

// hostRun is the state of one host in a session.
type hostRun struct {
	*Session
	node   plan.Node
	conn   transport.Conn
	values map[string]string // outputs known so far, "step.output"
	// Of the SSH server that the plan sets up, when the rest of values is gone.
	sshKey, sshPort string
	pending         map[string]bool // steps that the check found something to do for
	report          HostReport
	seen            map[string]string // versions that earlier runs have seen run, by step
	// cordoned: this run has cordoned the Node.
	cordoned bool
	// rollbackTo is what the Node was, while this run rolls its changes back if a step fails.
	rollbackTo *executor.NodeBefore
	// rebootLeft is why the machine is to be rebooted yet, where the plan does not let
	// this run do it and nothing had to wait for it.
	rebootLeft *steps.Error
	booted     time.Time // when this run has seen the machine back from its reboot; zero = not rebooted
	holds      bool      // the host is to be locked as long as this run changes it
	lockNext   bool      // the next call, an apply, takes that lock
	unanswered bool      // ... and had no reply: it may have begun
	awaited    bool      // the run waits for the host to answer (awaits)
	parked     bool      // the connection was ended after the check; the host answered
	// goesDown is the step by which RebootSelf reboots this machine; nil = it does not.
	goesDown *steps.Spec

	names []string // former names of the plan (findNames)

	// Mutating calls: of the agent that runs, as it said last, and of those before
	// it, as far as they could say.
	connMutations, lostMutations int64
}

// New makes a session; nothing is connected yet.
func New(p *plan.Compiled, opt Options) *Session {
	if opt.Parallel <= 0 {
		opt.Parallel = 10
	}
	s := &Session{plan: p, opt: opt, slots: newSlots(opt.Parallel, opt.More)}
	for _, n := range p.Nodes {
		n.Steps = distrusting(n.Steps)
		s.hosts = append(s.hosts, &hostRun{Session: s, node: n})
	}
	return s
}

// Close ends the connections and closes the files that were sent.
func (s *Session) Close() {
	for _, h := range s.hosts {
		h.disconnect()
	}
	if s.api != nil {
		s.api.Close()
	}
	s.contents.Close()
}

func (s *Session) emit(e event.Event) {
	s.emitM.Lock()
	defer s.emitM.Unlock()
	s.opt.Emit(e)
}

// each runs f for all hosts, as many at a time as there are slots, and waits. If f panics for a host, failed gets the
// error.
func (s *Session) each(ctx context.Context, f func(ctx context.Context, h *hostRun),
	failed func(h *hostRun, err error)) {
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, h := range s.hosts {
		s.slots.take()
		wait.Go(func() {
			defer s.slots.give()
			if err := guarded(func() { f(ctx, h) }); err != nil {
				failed(h, err)
				h.state("failed", "")
			}
		})
	}
}

// open opens the cluster once. It sends nothing: what is wrong with the kubeconfig
// or the pin of its CA is found before any host is touched.
func (s *Session) open(ctx context.Context) error {
	s.openOnce.Do(func() { s.api, s.openErr = s.opt.Cluster(ctx) })
	return s.openErr
}

// cluster asks the open cluster once what nodes must know of it.
func (s *Session) cluster(ctx context.Context) (kube.API, error) {
	s.infoOnce.Do(func() { s.info, s.infoErr = s.api.Info(ctx) })
	return s.api, s.infoErr
}

// note keeps what a check's result means for later steps.
func (h *hostRun) note(r steps.Result) {
	h.pending[r.ID] = r.Err != nil || !r.Change.NoOp()
	for k, v := range r.Change.Outputs {
		h.values[r.ID+"."+k] = v
	}
}

// request asks for a check or an apply of steps, with the values known so far.
func (h *hostRun) request(specs []steps.Spec) executor.Request {
	former := h.names
	if h.plan.Environment != "" {
		former = append(slices.Clone(former), h.bareName())
	}
	return executor.Request{Node: h.node.Name, Steps: specs, Values: h.values, Plan: h.planName(),
		Former: former, PruneChanged: h.opt.PruneChanged, Pausable: h.opt.Pausable}
}

func (h *hostRun) specs(p steps.Place) []steps.Spec {
	var out []steps.Spec
	for _, s := range h.node.Steps {
		if k, _ := kinds.Lookup(s.Kind); k.Place == p {
			out = append(out, s)
		}
	}
	return out
}

func (h *hostRun) state(state, detail string) {
	h.emit(event.HostState{Host: h.node.Name, State: state, Detail: detail})
}

func (h *hostRun) connect(ctx context.Context) (err error) {
	if h.conn != nil {
		return nil
	}
	h.state("connecting", "")
	h.awaits(func() { h.conn, err = h.opt.Connect(ctx, h.node) })
	if err != nil {
		h.conn = nil
	}
	return err
}

// awaits runs f, which waits for the host to answer. Others are worked on meanwhile (slots.lend).
func (h *hostRun) awaits(f func()) {
	if h.awaited {
		f()
		return
	}
	h.awaited = true
	defer func() { h.awaited = false }()
	h.slots.lend(f)
}

func (h *hostRun) disconnect() {
	if h.conn != nil {
		_ = h.conn.Close()
		h.conn = nil
	}
}

// keptOpen is how many connections stay open between the check and the apply. Each takes memory: 1,000 over SSH about
// 0.3 GB (examples/bench, 2026-11-26). The others are made again.
const keptOpen = 100

// park ends the connection to a host that was checked, if enough others are open for the apply.
func (h *hostRun) park() {
	if h.conn != nil && h.kept.Add(1) > keptOpen {
		h.disconnect()
		h.parked = true
	}
}

// release ends the connection to a host that is done, and with it what is kept of the host: of hundreds of hosts only
// those that are changed now take memory. This machine is asked once more where it is to be rebooted.
func (h *hostRun) release() {
	if h.goesDown == nil {
		h.disconnect()
		h.sshKey, h.sshPort = h.sshServer()
		h.values, h.pending, h.seen = nil, nil, nil
	}
}

// SSHServer is the host key and the port of the SSH server that a plan sets up on a node, as the machine says them;
// "" = not known.
func (s *Session) SSHServer(node string) (hostKey, port string) {
	for _, h := range s.hosts {
		if h.node.Name == node {
			return h.sshServer()
		}
	}
	return "", ""
}

func (h *hostRun) sshServer() (hostKey, port string) {
	for _, s := range h.node.Steps {
		if _, ok := kinds.As[kinds.SSHServer](s); ok && h.values[s.ID+".host_key"] != "" {
			return h.values[s.ID+".host_key"], h.values[s.ID+".port"]
		}
	}
	return h.sshKey, h.sshPort
}

// planName is the name of the plan in the claims of a machine: its environment, with the name of its cluster or
// that of its folder, as several plans without a cluster may be for one machine.
func (s *Session) planName() string { return steps.PlanName(s.plan.Environment, s.bareName()) }

// bareName is planName without the environment, which claims have from before the plan had environments.
func (s *Session) bareName() string {
	if s.plan.Cluster == nil {
		return "./" + filepath.Base(s.plan.Dir) // no cluster has such a name
	}
	return s.plan.Cluster.Name
}

func ids(specs []steps.Spec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, s.ID)
	}
	return out
}

// needsCluster reports whether a step runs there or refers to it.
func needsCluster(n plan.Node) bool {
	for _, spec := range n.Steps {
		if k, _ := kinds.Lookup(spec.Kind); k.Place == steps.OnCluster {
			return true
		}
		for _, r := range steps.ArgRefs(spec.Args) {
			if len(r) > 8 && r[:8] == "cluster." {
				return true
			}
		}
	}
	return false
}

package engine

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// Session is one run over the hosts of a plan. Connections that Check opened
// serve Apply as well. Close it in the end.
type Session struct {
	plan  *plan.Compiled
	opt   Options
	emitM sync.Mutex
	hosts []*hostRun

	openOnce sync.Once
	api      kube.API
	openErr  error
	infoOnce sync.Once
	info     kube.Info
	infoErr  error
	reported sync.Map // ids of runs that died and were reported
	turns    sync.Map // locks, by sharedKey: what nodes share is made by one, and seen by the others

	artifacts artifacts
}

// hostRun is the state of one host in a session.
type hostRun struct {
	*Session
	node    plan.Node
	conn    transport.Conn
	values  map[string]string // outputs known so far, "step.output"
	pending map[string]bool   // steps that the check found something to do for
	report  HostReport
	seen    map[string]string // versions that earlier runs have seen run, by step
	// cordoned: this run has cordoned the Node.
	cordoned bool
	// rollbackTo is what the Node was, while this run rolls its changes back if a step fails.
	rollbackTo *executor.NodeBefore
	// rebootLeft is why the machine is to be rebooted yet, where the plan does not let
	// this run do it and nothing had to wait for it.
	rebootLeft *steps.Error
	booted     time.Time // when this run has seen the machine back from its reboot; zero = not rebooted
	holds      bool      // the host is to be locked as long as this run changes it
	// goesDown is the step by which RebootSelf reboots this machine; nil = it does not.
	goesDown *steps.Spec

	// Mutating calls: of the agent that runs, as it said last, and of those before
	// it, as far as they could say.
	connMutations, lostMutations int64
}

// New makes a session; nothing is connected yet.
func New(p *plan.Compiled, opt Options) *Session {
	if opt.Parallel <= 0 {
		opt.Parallel = 10
	}
	s := &Session{plan: p, opt: opt}
	for _, n := range p.Nodes {
		n.Steps = distrusting(n.Steps)
		s.hosts = append(s.hosts, &hostRun{Session: s, node: n})
	}
	return s
}

// Close ends the connections.
func (s *Session) Close() {
	for _, h := range s.hosts {
		h.disconnect()
	}
}

func (s *Session) emit(e event.Event) {
	s.emitM.Lock()
	defer s.emitM.Unlock()
	s.opt.Emit(e)
}

// each runs f for all hosts, at most Parallel at a time, and waits. A host over which f panics is told to failed.
func (s *Session) each(ctx context.Context, f func(ctx context.Context, h *hostRun),
	failed func(h *hostRun, err error)) {
	var g errgroup.Group
	g.SetLimit(s.opt.Parallel)
	for _, h := range s.hosts {
		g.Go(func() error {
			if err := guarded(func() { f(ctx, h) }); err != nil {
				failed(h, err)
				h.state("failed", "")
			}
			return nil
		})
	}
	_ = g.Wait()
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

// Check looks at every step of every host; nothing is changed anywhere.
func (s *Session) Check(ctx context.Context) *Report {
	s.each(ctx, func(ctx context.Context, h *hostRun) { h.check(ctx) },
		func(h *hostRun, err error) { h.report = HostReport{Node: h.node, Err: err} })
	s.checkArtifactVersions()
	r := &Report{Rollout: s.plan.Rollout}
	for _, h := range s.hosts {
		r.Hosts = append(r.Hosts, h.report)
	}
	if err := cmp.Or(s.openErr, s.infoErr); err != nil {
		r.Cluster = steps.AsError(err)
	}
	r.Former = s.findFormer(ctx)
	return r
}

func (h *hostRun) check(ctx context.Context) {
	h.report = HostReport{Node: h.node}
	h.values, h.pending = map[string]string{}, map[string]bool{}
	// The cluster and the host are asked at the same time: their round trips overlap.
	var results map[string]steps.Result
	var clusterErr error
	asks := []func(){func() { h.report.Err = h.connect(ctx) }}
	if needsCluster(h.node) {
		if h.report.Err = h.open(ctx); h.report.Err != nil {
			h.state("failed", "")
			return
		}
		asks = append(asks, func() { results, clusterErr = h.checkCluster(ctx) })
	}
	together(asks...)
	if clusterErr != nil {
		h.report.Err = clusterErr
	}
	if h.report.Err != nil {
		h.state("failed", "")
		return
	}
	req := h.request(h.specs(steps.OnHost))
	req.Whole = !h.node.Partial
	reply, err := ask(ctx, h, "checking", wire.Check, req)
	if err != nil {
		h.report.Err = err
		h.state("failed", "")
		h.disconnect()
		return
	}
	h.report.Facts, h.report.Mutations = reply.Facts, reply.Mutations
	h.report.Last, h.report.LastUnknown = reply.Last, reply.LastUnknown
	h.report.Removals = reply.Removals
	for _, r := range reply.Removals.Items {
		if r.Err != nil { // nothing is changed on partial knowledge
			h.report.Err = &steps.Error{Code: r.Err.Code, Summary: r.Err.Summary,
				Detail: r.Key.String() + ", which the plan no longer names: " + r.Err.Detail, Remedy: r.Err.Remedy}
			h.state("failed", "")
			return
		}
	}
	h.report.Snapshot, h.report.Untouched, h.seen = reply.Snapshot, reply.Untouched, reply.RanVersions
	if results == nil {
		results = map[string]steps.Result{}
	}
	for _, r := range reply.Results {
		results[r.ID] = r
		h.note(r)
	}
	maps.Copy(h.values, steps.FactValues(reply.Facts)) // for the cluster's steps that name the machine
	if ip := h.reached(reply.Facts); ip != "" {
		h.values[steps.ReachedAddress] = ip
	}
	h.checkConditional(ctx, results)
	h.checkFiles(ctx, results)
	h.report.Steps = make([]StepReport, 0, len(h.node.Steps))
	for _, spec := range h.node.Steps {
		k, _ := kinds.Lookup(spec.Kind)
		h.report.Steps = append(h.report.Steps, StepReport{Spec: spec, Place: k.Place, Result: results[spec.ID]})
	}
	h.checkUpgrade(ctx)
	h.state("done", "")
}

// note keeps what a check's result means for later steps.
func (h *hostRun) note(r steps.Result) {
	h.pending[r.ID] = r.Err != nil || !r.Change.NoOp()
	for k, v := range r.Change.Outputs {
		h.values[r.ID+"."+k] = v
	}
}

// checkCluster checks the cluster's side of a node, except for the steps that run
// only when a host step needs them.
func (h *hostRun) checkCluster(ctx context.Context) (map[string]steps.Result, error) {
	api, err := h.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.checkNode(ctx, api); err != nil {
		return nil, err
	}
	h.values["cluster.ca"], h.values["cluster.ca_hash"], h.values["cluster.version"] = h.info.CA, h.info.CAHash,
		h.info.Version
	var specs []steps.Spec
	for _, s := range h.specs(steps.OnCluster) {
		if s.OnlyIf == "" {
			specs = append(specs, s)
		}
	}
	results := map[string]steps.Result{}
	for _, r := range executor.CheckCluster(ctx, kinds.Catalog(), h.node.Name, specs, maps.Clone(h.values),
		map[string]bool{}, api) {
		results[r.ID] = r
		h.note(r)
	}
	return results, nil
}

// checkConditional adds the cluster steps whose need, or whose arguments, only the host's check shows.
func (h *hostRun) checkConditional(ctx context.Context, results map[string]steps.Result) {
	var specs []steps.Spec
	needed := map[string]bool{}
	for _, s := range h.specs(steps.OnCluster) {
		if s.OnlyIf != "" {
			needed[s.Kind] = needed[s.Kind] || h.pending[s.OnlyIf]
		}
		known := results[s.ID].Change.Action == steps.ActionUnknown && len(executor.Unresolved(s.Args, h.values)) == 0
		if s.OnlyIf != "" || known || needed[s.Kind] { // the last is one that undoes what the former makes
			specs = append(specs, s)
		}
	}
	if len(specs) == 0 {
		return
	}
	for _, r := range executor.CheckCluster(ctx, kinds.Catalog(), h.node.Name, specs, maps.Clone(h.values),
		maps.Clone(h.pending), h.api) {
		results[r.ID] = r
		h.note(r)
	}
}

// request asks for a check or an apply of steps, with the values known so far.
func (h *hostRun) request(specs []steps.Spec) executor.Request {
	return executor.Request{Node: h.node.Name, Steps: specs, Values: h.values, Plan: h.planName(),
		PruneChanged: h.opt.PruneChanged}
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

package engine

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/wire"
)

// Check looks at every step of every host; nothing is changed anywhere.
func (s *Session) Check(ctx context.Context) *Report {
	s.checked.Clear()
	s.each(ctx, func(ctx context.Context, h *hostRun) {
		h.check(ctx)
		h.park()
	},
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
	s.former = s.findObjects(ctx)
	r.Objects = s.former
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
	h.report.Guard, h.report.Paused, h.report.Credentials = reply.Guard, reply.Paused, reply.Credentials
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
	if h.report.Err = h.checkMoved(ctx); h.report.Err != nil {
		h.state("failed", "")
		return
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
	h.findNames(ctx, api)
	h.values["cluster.ca"], h.values["cluster.ca_hash"], h.values["cluster.version"] = h.info.CA, h.info.CAHash,
		h.info.Version
	var specs []steps.Spec
	for _, s := range h.specs(steps.OnCluster) {
		if s.OnlyIf == "" {
			specs = append(specs, s)
		}
	}
	results := map[string]steps.Result{}
	for _, r := range executor.CheckCluster(ctx, kinds.Catalog(), h.planName(), h.node.Name, specs, maps.Clone(h.values),
		map[string]bool{}, sharedChecks{api, &h.checked}, h.names...) {
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
	for _, r := range executor.CheckCluster(ctx, kinds.Catalog(), h.planName(), h.node.Name, specs, maps.Clone(h.values),
		maps.Clone(h.pending), sharedChecks{h.api, &h.checked}, h.names...) {
		results[r.ID] = r
		h.note(r)
	}
}

// reached is the machine's address by the connection, unless it cannot be that of a machine of the cluster.
func (h *hostRun) reached(f host.Facts) string {
	text := h.conn.Address(f)
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	if k := h.plan.Cluster; k != nil {
		for cidr := range strings.SplitSeq(k.PodCIDR, ",") {
			if p, err := netip.ParsePrefix(cidr); err == nil && p.Contains(ip) {
				return ""
			}
		}
	}
	return text
}

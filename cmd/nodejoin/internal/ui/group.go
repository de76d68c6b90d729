package ui

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
)

// group is hosts whose changes are the same but for their own names, addresses and certificates.
type group struct {
	hosts []engine.HostReport
	body  string
}

// groups are the hosts with something to show: those that pods notice first, then those that are changed, then
// those that only get what is new; within each by the first host.
func groups(hosts []engine.HostReport, o PlanOptions) []*group {
	var out []*group
	by := map[string]*group{}
	for _, h := range hosts {
		if h.Err != nil || !o.Full && !changes(h) && !leavesSome(h) {
			continue
		}
		key := hostBody([]engine.HostReport{h}, o, nil)
		if !o.Full {
			key = hostBody([]engine.HostReport{h}, o, ownWords(h))
		}
		if by[key] == nil {
			by[key] = &group{}
			out = append(out, by[key])
		}
		by[key].hosts = append(by[key].hosts, h)
	}
	for _, g := range out {
		g.body = hostBody(g.hosts, o, differing(g.hosts))
	}
	slices.SortStableFunc(out, func(a, b *group) int { return urgency(a.hosts[0]) - urgency(b.hosts[0]) })
	return out
}

func changes(h engine.HostReport) bool {
	return h.Snapshot != nil || h.Removals.Pending()+len(h.Moved) > 0 ||
		slices.ContainsFunc(h.Steps, func(s engine.StepReport) bool {
			return s.Result.Err != nil || !s.Result.Change.NoOp()
		})
}

// leavesSome reports whether something stays that the plan no longer names, for a reason that plan shows. A folder or
// a registry key that others use is not news.
func leavesSome(h engine.HostReport) bool {
	return slices.ContainsFunc(h.Removals.Items, func(r executor.Removal) bool { return !implied(r) })
}

// urgency is small for hosts whose changes are noticed at once.
func urgency(h engine.HostReport) int {
	if h.Interruption != nil || len(h.Moved) > 0 {
		return 0
	}
	stops := func(s engine.StepReport) bool {
		return s.Result.Change.Action == steps.ActionRestart || s.Result.Change.Action == steps.ActionReboot
	}
	if h.Removals.Pending() > 0 || slices.ContainsFunc(h.Steps, stops) {
		return 1
	}
	return 2
}

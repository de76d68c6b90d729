package engine

import (
	"slices"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// stopSuffix ends the id of a step that stops a service, which its own step then starts.
const stopSuffix = "_stop"

// Fixes is a node with the steps that fix what was found, in the plan's order: the ones that the symptoms
// name, services to restart with those that depend on them, each stopped first, the gates of all these
// services, and the steps whose values any of them needs. A node with nothing to fix has no steps.
func Fixes(n plan.Node, found []doctor.Symptom) plan.Node {
	want := map[string]bool{}
	restart := map[string]bool{} // services
	for _, s := range found {
		if s.Waived {
			continue
		}
		for _, id := range s.Fix {
			want[id] = true
		}
		for _, name := range s.Restart {
			restart[name] = true
		}
	}
	for _, s := range n.Steps {
		if made, ok := kinds.As[kinds.HNSNetwork](s); ok && want[s.ID] && made.Service != "" {
			restart[made.Service] = true // it is stopped for the network
		}
	}
	services := servicesOf(n)
	addDependents(services, restart)
	var stops []steps.Spec
	named := map[string]bool{} // services whose gates are waited for
	for _, s := range services {
		if restart[s.Name] {
			want[s.spec.ID] = true
			stops = append(stops, s.stop())
		}
		named[s.Name] = want[s.spec.ID]
	}
	slices.Reverse(stops) // what depends on others comes after them in a plan
	for _, s := range n.Steps {
		if named[kinds.Gate(s)] {
			want[s.ID] = true
		}
	}
	closeOver(n.Steps, want)
	out := n
	out.Steps, out.Partial = nil, true
	for _, s := range n.Steps {
		if want[s.ID] {
			s.After = nil // the order is the plan's
			out.Steps = append(out.Steps, s)
		}
	}
	if len(out.Steps) > 0 {
		out.Steps = append(stops, out.Steps...)
	}
	return out
}

// addDependents adds the services that depend on one to be restarted.
func addDependents(services []serviceStep, restart map[string]bool) {
	for grown := true; grown; {
		grown = false
		for _, s := range services {
			if !restart[s.Name] && slices.ContainsFunc(s.DependsOn, func(d string) bool { return restart[d] }) {
				restart[s.Name], grown = true, true
			}
		}
	}
}

// closeOver adds the steps whose values are needed, and those that a conditional one
// is for.
func closeOver(all []steps.Spec, want map[string]bool) {
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			if !want[s.ID] {
				continue
			}
			need := refsOf(s)
			if s.OnlyIf != "" {
				need = append(need, s.OnlyIf)
			}
			for _, id := range need {
				if !want[id] && slices.ContainsFunc(all, func(o steps.Spec) bool { return o.ID == id }) {
					want[id], grown = true, true
				}
			}
		}
	}
}

// refsOf are the steps whose outputs a step refers to.
func refsOf(s steps.Spec) (out []string) {
	for _, r := range steps.ArgRefs(s.Args) {
		for i := range r {
			if r[i] == '.' {
				out = append(out, r[:i])
				break
			}
		}
	}
	return out
}

type serviceStep struct {
	kinds.Service
	spec steps.Spec
}

func servicesOf(n plan.Node) (out []serviceStep) {
	for _, s := range n.Steps {
		if v, ok := kinds.As[kinds.Service](s); ok && v.State != host.ServiceStopped {
			out = append(out, serviceStep{Service: *v, spec: s})
		}
	}
	return out
}

// stop is the step that stops the service. Otherwise it is as in the plan, without what its own step learns
// when it runs.
func (s serviceStep) stop() steps.Spec {
	args := s.Service
	args.State = host.ServiceStopped
	return steps.Spec{ID: s.spec.ID + stopSuffix, Kind: s.spec.Kind, Args: steps.MustArgs(&args), Source: s.spec.Source,
		Title: "Stop service " + s.Name + ", to restart it"}
}

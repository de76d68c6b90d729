package ui

import (
	"time"

	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// OnHosts is work on all hosts of a plan whose steps are not counted.
func OnHosts(title string, c *plan.Compiled) Work {
	w := Work{Title: title}
	for _, n := range c.Nodes {
		w.Hosts = append(w.Hosts, n.Name)
	}
	return w
}

// Applying is the work of an apply after a check. usual is how long a step took on a host in earlier runs, negative if
// that is not known.
func Applying(r *engine.Report, parallel int, usual func(host, step string) time.Duration) Work {
	w := Work{Title: "Applying", Parallel: parallel, Steps: map[string]map[string]time.Duration{}}
	for _, h := range r.Hosts {
		w.Hosts = append(w.Hosts, h.Node.Name)
		of := map[string]time.Duration{}
		for _, s := range h.Steps {
			if !s.Result.Change.NoOp() {
				of[s.Spec.ID] = usual(h.Node.Name, s.Spec.ID)
			} else {
				of[s.Spec.ID] = 0
			}
		}
		w.Steps[h.Node.Name] = of
	}
	return w
}

// Package runmetrics writes metrics of a run for Prometheus, into a file for the textfile collector of node_exporter.
package runmetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// Run is what a command has found and done.
type Run struct {
	Command, Plan, Environment, Version string
	Began                               time.Time
	Code                                int
	Report                              *engine.Report
	Summary                             *engine.Summary // of an apply that changed something; nil = none
}

// Write replaces the file with the metrics; "" = nobody wants them.
func Write(file string, r Run) error {
	if file == "" {
		return nil
	}
	g, err := r.gather(time.Now())
	if err != nil {
		return err
	}
	return prometheus.WriteToTextfile(file, g)
}

// states are the results of a host, so that each has a value in each run.
var states = []string{"in_sync", "drifted", "unfinished", "not_joined", "not_reachable", "failed"}

// gather makes the metrics.
func (r Run) gather(now time.Time) (prometheus.Gatherer, error) {
	reg := prometheus.NewRegistry()
	of := prometheus.WrapRegistererWith(prometheus.Labels{"command": r.Command, "plan": r.Plan,
		"environment": r.Environment}, reg)
	var failed error
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "nodejoin", Name: name, Help: help}, labels)
		if err := of.Register(g); err != nil && failed == nil {
			failed = err
		}
		return g
	}
	gauge("run_info", "The version of nodejoin that ran.", "version").WithLabelValues(r.Version).Set(1)
	gauge("run_end_timestamp_seconds", "When the last run ended.").WithLabelValues().Set(float64(now.Unix()))
	gauge("run_duration_seconds", "How long the last run took.").WithLabelValues().Set(now.Sub(r.Began).Seconds())
	gauge("run_exit_code", "The exit code of the last run.").WithLabelValues().Set(float64(r.Code))
	hosts := gauge("run_hosts", "Hosts by the state that the last run found them in.", "state")
	inSync := gauge("host_in_sync", "Whether the last run found the host as planned.", "node")
	for _, s := range states {
		hosts.WithLabelValues(s).Set(0)
	}
	for _, h := range r.Report.Hosts {
		state := ui.HostState(h)
		hosts.WithLabelValues(state).Inc()
		value := 0.0
		if state == "in_sync" {
			value = 1
		}
		inSync.WithLabelValues(h.Node.Name).Set(value)
	}
	changes := gauge("run_changes_found", "Steps that the last run found to differ, by what is to be done.", "action")
	for action, n := range r.Report.Actions() {
		changes.WithLabelValues(string(action)).Set(float64(n))
	}
	ends := gauge("credential_end_timestamp_seconds", "When a credential on a host ends.", "node", "what", "path")
	for _, h := range r.Report.Hosts {
		for _, c := range h.Credentials {
			if !c.Ends.IsZero() {
				ends.WithLabelValues(h.Node.Name, c.What, c.Path).Set(float64(c.Ends.Unix()))
			}
		}
	}
	if r.Summary != nil {
		r.applied(gauge)
	}
	return reg, failed
}

// applied makes the metrics of what an apply did.
func (r Run) applied(gauge func(name, help string, labels ...string) *prometheus.GaugeVec) {
	results := gauge("apply_hosts", "Hosts by the result of the last apply that changed something.", "result")
	changed := gauge("apply_steps_changed", "Steps that the last apply that changed something has changed.")
	for _, name := range []string{"done", "failed", "not_started"} {
		results.WithLabelValues(name).Set(0)
	}
	changed.WithLabelValues().Set(0)
	for _, h := range r.Summary.Hosts {
		result := "done"
		switch {
		case h.Held != "":
			result = "not_started"
		case h.Err != nil:
			result = "failed"
		}
		results.WithLabelValues(result).Inc()
		changed.WithLabelValues().Add(float64(len(h.Changed) + len(h.Removed)))
	}
}

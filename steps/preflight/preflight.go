// Package preflight checks the conditions of a machine before a join changes anything.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// PreflightKind is the kind of a Preflight.
var PreflightKind = steps.Kind{Name: "preflight", Place: steps.OnHost, Finds: true,
	Doc:     "conditions of the machine, checked before anything is changed; those that do not hold are findings",
	Outputs: []string{"subnet"},
	New:     func() any { return &Preflight{} }}

// preflightChecks is the table of the checks, in their order.
var preflightChecks = slices.Concat(machineChecks, windowsChecks, sshChecks, linuxChecks, networkChecks,
	neighbourChecks)

// Findables lists what Preflight can find, in the order of the checks.
func Findables() []steps.Findable {
	var out []steps.Findable
	for _, c := range preflightChecks {
		out = append(out, steps.Findable{ID: c.id, Severity: c.severity, Doc: c.why})
	}
	return out
}

// Check makes all checks and returns all findings.
func (q *Preflight) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := q.valid(); err != nil {
		return steps.Change{}, err
	}
	var c steps.Change
	s := &pass{q: q, r: r, e: e}
	for _, check := range preflightChecks {
		if check.os != "" && check.os != e.Facts.OS || len(q.Only) > 0 && !slices.Contains(q.Only, check.id) {
			continue
		}
		list, err := check.look(ctx, s)
		if ctx.Err() != nil {
			return steps.Change{}, context.Cause(ctx)
		}
		base := steps.Finding{ID: check.id, Severity: check.severity, Why: check.why,
			Waived: slices.Contains(q.Waive, check.id)}
		for _, l := range list {
			f := base
			f.Observed, f.Remedy = l.what, l.remedy
			c.Findings = append(c.Findings, f)
		}
		if err != nil {
			f := base.NotChecked(err,
				fmt.Sprintf("fix what prevented the check, or check it yourself and say waive = [%q]", check.id))
			if errors.Is(err, host.ErrUnsupported) && f.Severity == steps.SeverityError {
				f.Severity = steps.SeverityWarning // the machine cannot answer, now or later
			}
			c.Findings = append(c.Findings, f)
		}
	}
	if network := s.network(ctx); network != "" {
		c.Outputs = map[string]string{"subnet": network}
	}
	return c, refusal(c.Findings)
}

// refusal is the error for findings that stop the run; nil if there are none.
func refusal(list []steps.Finding) error {
	var what, remedies []string
	for _, f := range list {
		if f.Severity == steps.SeverityError && !f.Waived {
			what = append(what, f.ID+": "+f.Observed)
			if !slices.Contains(remedies, f.Remedy) {
				remedies = append(remedies, f.Remedy)
			}
		}
	}
	if what == nil {
		return nil
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: PreflightSummary, Detail: strings.Join(what, "; "),
		Remedy: strings.Join(remedies, "; ")}
}

// PreflightSummary is the summary of the error for findings that stop the run.
const PreflightSummary = "the machine is not ready to join"

// valid refuses arguments that make no sense for any machine.
func (q *Preflight) valid() error {
	if q.MinBuild != "" {
		if _, ok := host.BuildNumbers(q.MinBuild); !ok {
			return steps.Invalid("min_build %q is not a build such as 10.0.17763", q.MinBuild)
		}
	}
	if q.MinFree != "" {
		if _, err := host.ParseSize(q.MinFree); err != nil {
			return steps.Invalid("min_free: %v", err)
		}
	}
	if q.CA != "" && !steps.HasRef(q.CA) && len(host.Certificates([]byte(q.CA))) == 0 {
		return steps.Invalid("ca has no certificate (PEM)")
	}
	for key := range q.BadRevisions {
		if _, _, _, ok := splitRevisions(key); !ok {
			return steps.Invalid("bad_revisions: %q is not written like 10.0.20348.2582 or 10.0.20348.2582-2654", key)
		}
	}
	for _, p := range q.Ports {
		if _, _, ok := splitPort(p); !ok {
			return steps.Invalid("port %q is not written like tcp/10250", p)
		}
	}
	for _, p := range q.Proxies {
		if address, ok := ProxyAddress(p); !ok || address != p {
			return steps.Invalid("proxy %q is not written HOST:PORT", steps.ShowCredentials(p))
		}
	}
	for _, id := range q.Only {
		if !slices.ContainsFunc(preflightChecks, func(c preflightCheck) bool { return c.id == id }) {
			return steps.Invalid("there is no finding %q to check for", id)
		}
	}
	return nil
}

// Apply is never reached: Check has nothing to do or fails.
func (q *Preflight) Apply(context.Context, host.Host, *steps.Env, steps.Change) (steps.Outcome, error) {
	return steps.Outcome{}, nil
}

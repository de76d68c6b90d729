package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// configDiffs compares a registered configuration with the wanted one. The values
// of the variables that sensitive names are not shown.
func configDiffs(have, want host.ServiceConfig, sensitive []string) []steps.Diff {
	have = normal(have)
	var out []steps.Diff
	add := func(name, have, want string) {
		if have != want {
			out = append(out, steps.Diff{Name: name, Have: have, Want: want})
		}
	}
	if !slices.Equal(have.Command, want.Command) {
		out = append(out, steps.Diff{Name: "command", Have: strings.Join(have.Command, "\n"),
			Want: strings.Join(want.Command, "\n"), Text: true})
	}
	add("display_name", have.DisplayName, want.DisplayName)
	add("description", have.Description, want.Description)
	add("start", string(have.Start), string(want.Start))
	add("depends_on", strings.Join(have.DependsOn, ", "), strings.Join(want.DependsOn, ", "))
	if !slices.Equal(have.Environment, want.Environment) {
		shown := func(env []string) string { return strings.Join(steps.ShowEnvironment(env, sensitive), ", ") }
		d := steps.Diff{Name: "environment", Have: shown(have.Environment), Want: shown(want.Environment)}
		if d.Have == d.Want {
			d = steps.Diff{Name: "environment", Sensitive: true} // what differs is not shown
		}
		out = append(out, d)
	}
	add("recovery", recoveryText(have), recoveryText(want))
	return out
}

func recoveryText(c host.ServiceConfig) string {
	var parts []string
	for _, a := range c.Recovery {
		p := a.Action
		if a.Delay > 0 {
			p += " after " + a.Delay.String()
		}
		parts = append(parts, p)
	}
	if c.RecoveryReset > 0 {
		parts = append(parts, fmt.Sprintf("count reset after %d s", c.RecoveryReset))
	}
	return strings.Join(parts, ", ")
}

// diff compares a service with the wanted one; have is nil when it is not
// registered. stale says why a running service is to be restarted, "" if it is not.
func (s *Service) diff(have *host.Service, stale string) steps.Change {
	want, touch := s.want(), []steps.Touch{{Service: s.Name}}
	if have == nil {
		c := steps.Change{Action: steps.ActionCreate,
			Diffs: configDiffs(host.ServiceConfig{Name: s.Name, Start: want.Start}, want, s.SensitiveEnvironment)}
		if s.Running() {
			c.Touches = touch
		}
		return c
	}
	c := steps.Change{Diffs: configDiffs(have.ServiceConfig, want, s.SensitiveEnvironment)}
	if have.Altered != "" {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "registration", Have: have.Altered, Want: "as nodejoin makes it"})
	}
	if len(c.Diffs) > 0 {
		c.Action = steps.ActionUpdate
	}
	runs := have.State == host.ServiceRunning
	switch {
	case !s.Running() && have.State != host.ServiceStopped:
		c.Action, c.Touches = steps.ActionUpdate, touch
		c.Diffs = append(c.Diffs, steps.Diff{Name: "state", Have: string(have.State), Want: string(host.ServiceStopped)})
	case s.Running() && have.Restarting:
		c.Touches = touch
		if c.Action == steps.ActionNone {
			c.Action, c.Reason = steps.ActionRestart, fmt.Sprintf("it ends with code %d and is started again "+
				"and again", have.ExitCode)
		}
	case s.Running() && !runs:
		c.Touches = touch
		if c.Action == steps.ActionNone {
			c.Action, c.Reason = steps.ActionStart, "it is "+string(have.State)
		} else {
			c.Diffs = append(c.Diffs, steps.Diff{Name: "state", Have: string(have.State), Want: string(host.ServiceRunning)})
		}
	case s.Running() && stale != "":
		c.Touches = touch
		if c.Action == steps.ActionNone {
			c.Action, c.Reason = steps.ActionRestart, stale
		} else {
			c.Reason = "restarts: " + stale
		}
	}
	return c
}

// withoutNetworks adds the HNS networks that are removed while the service is stopped.
func withoutNetworks(c steps.Change, networks []string, service string) steps.Change {
	for _, n := range networks {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "hns_network", Have: n})
	}
	if len(networks) > 0 {
		c.Touches = []steps.Touch{{Service: service}}
		if c.Action == steps.ActionNone || c.Action == steps.ActionRestart {
			c.Action, c.Reason = steps.ActionUpdate, "restarts: it makes another network than before"
		}
	}
	return c
}

// stale says why the service, if it runs, must be restarted.
func (s *Service) stale(ctx context.Context, r host.Reader, e *steps.Env, have host.Service) (string, error) {
	var changing []string
	for _, p := range s.Watched() {
		if _, ok := e.WillChange(steps.Touch{Path: p}); !ok {
			continue
		}
		if _, known := e.FutureDigest(p); !known {
			return p + " changes", nil
		}
		changing = append(changing, p)
	}
	if step, ok := e.WillChange(steps.Touch{Service: s.Name}); ok {
		return step + " stops it", nil
	}
	if have.Altered != "" {
		return have.Altered, nil
	}
	want := s.want()
	switch is := normal(have.ServiceConfig); {
	case !slices.Equal(is.Command, want.Command):
		return "its command changes", nil
	case !slices.Equal(is.Environment, want.Environment):
		return "its environment changes", nil
	}
	if why := s.outdated(e); why != "" {
		return why, nil
	}
	if len(changing) > 0 && e.StartedByOthers(have) {
		return strings.Join(changing, ", ") + " changes, and it was started by something else meanwhile", nil
	}
	recorded, ok := e.Record.Fingerprints[s.Name]
	if !ok {
		return "it is not known what it was started from", nil
	}
	fp, err := e.Fingerprint(ctx, r, s.startedFrom(), s.Watched())
	if err != nil || fp == recorded {
		return "", err
	}
	if len(changing) > 0 {
		return strings.Join(changing, ", ") + " changes", nil
	}
	return "changed since its last start: its command, environment or one of " + strings.Join(s.Watched(), ", "), nil
}

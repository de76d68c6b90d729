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

// Preflight checks the machine for the findings of the table, or for those that Only names, and changes
// nothing. Its Change has every finding. One of severity error that is not waived fails the check, so the
// machine is left as it is. A check that could not be made is a finding too, never a pass. Outputs: subnet,
// the network of the node's address.
//
// A check whose argument is missing is left out.
type Preflight struct {
	OS           string            `json:"os,omitempty" doc:"\"windows\" or \"linux\"" choices:"windows,linux"`
	Arch         string            `json:"arch,omitempty" doc:"\"amd64\" or \"arm64\"" choices:"amd64,arm64"`
	MinBuild     string            `json:"min_build,omitempty" doc:"lowest Windows build, as 10.0.17763" os:"windows"`
	MinRevisions map[string]int    `json:"min_revisions,omitempty" doc:"lowest update revision by build" os:"windows"`
	BadRevisions map[string]string `json:"bad_revisions,omitempty" doc:"fault by build and revisions" os:"windows"`

	Path    string `json:"path,omitempty" doc:"volume of min_free" path:"true" with:"min_free" why:"min_free is missing"`
	MinFree string `json:"min_free,omitempty" doc:"space wanted on path's volume (default nodejoin's), as 2GiB"`

	Address     string   `json:"address,omitempty" doc:"the node's IPv4 address; an adapter must have it"`
	Address6    string   `json:"address6,omitempty" doc:"the node's IPv6 address, likewise"`
	APIServer   string   `json:"api_server,omitempty" doc:"URL of the API server that the machine must reach"`
	CA          string   `json:"ca,omitempty" doc:"certificates (PEM) of the cluster's authority"`
	PodCIDR     string   `json:"pod_cidr,omitempty" doc:"pod network, or two; must not overlap the machine's"`
	ServiceCIDR string   `json:"service_cidr,omitempty" doc:"service network, likewise"`
	Placeholder string   `json:"placeholder,omitempty" doc:"network of the placeholder HNS network, likewise"`
	Services    []string `json:"services,omitempty" doc:"services that only nodejoin may have registered"`
	Required    []string `json:"required,omitempty" doc:"services that must run, whoever registered them"`
	Ports       []string `json:"ports,omitempty" doc:"ports of those services, as \"tcp/10250\""`
	HNSNetworks []string `json:"hns_networks,omitempty" doc:"HNS networks that are the node's own" os:"windows"`
	NoSwap      bool     `json:"no_swap,omitempty" doc:"Linux: swap must be off" os:"linux"`
	CgroupV2    bool     `json:"cgroup_v2,omitempty" doc:"Linux: cgroup v2 must be in use" os:"linux"`
	Features    []string `json:"features,omitempty" doc:"features to turn on where no reboot is allowed"`
	Programs    []string `json:"programs,omitempty" doc:"Linux: names of programs that must exist" os:"linux"`
	Leftovers   []string `json:"leftovers,omitempty" doc:"files and folders that an earlier node leaves"`
	Guarded     []string `json:"guarded,omitempty" doc:"Windows: folders to close to non-administrators"`
	Proxy       bool     `json:"proxy,omitempty" doc:"the plan sets the proxy"`
	Proxies     []string `json:"proxies,omitempty" doc:"HOST:PORT of the plan's proxies that may be shown"`
	Named       bool     `json:"named,omitempty" doc:"the plan sets the machine's name"`
	StaticKept  bool     `json:"static_kept,omitempty" doc:"the plan keeps a static address in HNS" os:"windows"`
	FirewallOff bool     `json:"firewall_off,omitempty" doc:"Windows: the plan makes no firewall rules" os:"windows"`
	SSHPort     int      `json:"ssh_port,omitempty" doc:"Windows: port by which SSH reaches it" os:"windows"`
	Reboots     bool     `json:"reboots,omitempty" doc:"the plan may reboot the machine" os:"windows"`
	Only        []string `json:"only,omitempty" doc:"ids of the findings to check for; default all"`
	Waive       []string `json:"waive,omitempty" doc:"ids of findings that do not count" findings:"true"`
}

// Findables lists what Preflight can find, in the order of the checks.
func Findables() []steps.Findable {
	var out []steps.Findable
	for _, c := range preflightChecks {
		out = append(out, steps.Findable{ID: c.id, Severity: c.severity, Doc: c.why})
	}
	return out
}

// preflightCheck is a row of the table.
type preflightCheck struct {
	id       string
	severity steps.Severity
	os       string // checked on this OS only; "" = on all
	why      string
	// look returns what does not hold. It judges absence itself; an error means that it could not check.
	look func(ctx context.Context, s *pass) ([]observed, error)
}

// observed is what a check found, and what to do about it.
type observed struct{ what, remedy string }

// found returns one thing found.
func found(remedy, format string, args ...any) ([]observed, error) {
	return []observed{{fmt.Sprintf(format, args...), remedy}}, nil
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

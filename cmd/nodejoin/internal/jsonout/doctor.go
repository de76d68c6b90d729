package jsonout

import (
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// Doctor is the JSON output of doctor (examples/schema/doctor.schema.json).
type Doctor struct {
	FormatVersion string       `json:"format_version"`
	Errors        int          `json:"errors"` // that are not waived
	Hosts         []doctorHost `json:"hosts"`
}

type doctorHost struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Facts   any    `json:"facts,omitempty"`
	// Joined reports whether the machine has joined, so that it was checked for the
	// symptoms of joined machines too.
	Joined    bool        `json:"joined"`
	Findings  []symptom   `json:"findings"`
	Fixed     []string    `json:"fixed,omitempty"` // addresses of the steps that --fix has changed
	Error     *ui.Problem `json:"error,omitempty"`
	Mutations int64       `json:"mutations"` // by the diagnosis: 0
}

type symptom struct {
	ID       string         `json:"id"`
	Severity steps.Severity `json:"severity"`
	Observed string         `json:"observed"`
	Why      string         `json:"why,omitempty"`
	Remedy   string         `json:"remedy,omitempty"`
	Unasked  bool           `json:"unasked,omitempty"`
	Waived   bool           `json:"waived,omitempty"`
	Fixable  bool           `json:"fixable,omitempty"` // --fix can fix it
}

// OfDiagnosis is what doctor found. fixed is what --fix did before, nil for nothing.
func OfDiagnosis(hosts []engine.Diagnosis, fixed *engine.Summary) Doctor {
	out := Doctor{FormatVersion: "1", Hosts: []doctorHost{}}
	for _, d := range hosts {
		j := doctorHost{Node: d.Node.Name, Address: d.Node.Address, Joined: d.Joined, Findings: []symptom{},
			Mutations: d.Mutations}
		if d.Err == nil {
			j.Facts = d.Facts
		} else {
			j.Error = problem(d.Err, "", "")
		}
		for _, f := range d.Found {
			if f.Severity == steps.SeverityError && !f.Waived {
				out.Errors++
			}
			j.Findings = append(j.Findings, symptom{f.ID, f.Severity, f.Observed, f.Why, f.Remedy, f.Unasked, f.Waived,
				f.Fixable()})
		}
		if fixed != nil {
			j.Fixed = fixedSteps(d, fixed)
		}
		out.Hosts = append(out.Hosts, j)
	}
	return out
}

// fixedSteps are the addresses of the steps that were changed on a host.
func fixedSteps(d engine.Diagnosis, sum *engine.Summary) []string {
	var out []string
	for _, h := range sum.Hosts {
		if h.Node != d.Node.Name {
			continue
		}
		for _, id := range h.Changed {
			out = append(out, d.Node.Address+"."+id)
		}
	}
	return out
}

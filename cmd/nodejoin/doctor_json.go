package main

import (
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// doctorJSON writes a diagnosis as one JSON value.
type doctorJSON struct{ *app }

func (doctorJSON) before(diagnosed) {}

func (doctorJSON) nothingToFix() {}

func (doctorJSON) plan(*engine.Report) {}

func (j doctorJSON) result(r diagnosed) error { return j.printJSON(diagnosisJSON(r)) }

// jsonDoctor is the JSON output of doctor (examples/schema/doctor.schema.json).
type jsonDoctor struct {
	FormatVersion string           `json:"format_version"`
	Errors        int              `json:"errors"` // that are not waived
	Hosts         []jsonDoctorHost `json:"hosts"`
}

type jsonDoctorHost struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Facts   any    `json:"facts,omitempty"`
	// Joined reports whether the machine has joined, so that it was checked for the
	// symptoms of joined machines too.
	Joined    bool          `json:"joined"`
	Findings  []jsonSymptom `json:"findings"`
	Fixed     []string      `json:"fixed,omitempty"` // addresses of the steps that --fix has changed
	Error     *ui.Problem   `json:"error,omitempty"`
	Mutations int64         `json:"mutations"` // by the diagnosis: 0
}

type jsonSymptom struct {
	ID       string         `json:"id"`
	Severity steps.Severity `json:"severity"`
	Observed string         `json:"observed"`
	Why      string         `json:"why,omitempty"`
	Remedy   string         `json:"remedy,omitempty"`
	Unasked  bool           `json:"unasked,omitempty"`
	Waived   bool           `json:"waived,omitempty"`
	Fixable  bool           `json:"fixable,omitempty"` // --fix can fix it
}

func diagnosisJSON(r diagnosed) jsonDoctor {
	out := jsonDoctor{FormatVersion: "1", Hosts: []jsonDoctorHost{}}
	for _, d := range r.hosts {
		j := jsonDoctorHost{Node: d.Node.Name, Address: d.Node.Address, Joined: d.Joined, Findings: []jsonSymptom{},
			Mutations: d.Mutations}
		if d.Err == nil {
			j.Facts = d.Facts
		} else {
			j.Error = jsonProblem(d.Err, "", "")
		}
		for _, f := range d.Found {
			if f.Severity == steps.SeverityError && !f.Waived {
				out.Errors++
			}
			j.Findings = append(j.Findings, jsonSymptom{f.ID, f.Severity, f.Observed, f.Why, f.Remedy, f.Unasked, f.Waived,
				fixable(f)})
		}
		if r.fixed != nil {
			j.Fixed = fixedSteps(d, r.fixed.summary)
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

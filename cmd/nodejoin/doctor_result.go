package main

import (
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// diagnosed is the result of doctor.
type diagnosed struct {
	hosts []engine.Diagnosis
	fixed *applied // what --fix did before this diagnosis; nil = nothing
}

// code is the exit code.
func (r diagnosed) code() int {
	code := exitOK
	if r.fixed != nil {
		code = r.fixed.code()
	}
	for _, d := range r.hosts {
		code = worst(code, errorCode(d.Err))
		for _, f := range d.Found {
			if f.Severity == steps.SeverityError && !f.Waived {
				code = worst(code, exitFailed)
			}
		}
	}
	return code
}

// doctorView writes a diagnosis to standard output, as text or as JSON.
type doctorView interface {
	// before writes what was found before --fix changes anything.
	before(diagnosed)
	// nothingToFix says that --fix has nothing to do.
	nothingToFix()
	// plan writes what --fix would change.
	plan(*engine.Report)
	result(diagnosed) error
}

// data is what --json prints.
func (r diagnosed) data() jsonout.Doctor {
	var fixed *engine.Summary
	if r.fixed != nil {
		fixed = r.fixed.summary
	}
	return jsonout.OfDiagnosis(r.hosts, fixed)
}

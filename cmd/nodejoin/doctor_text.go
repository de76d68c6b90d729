package main

import (
	"fmt"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// doctorText writes a diagnosis as text.
type doctorText struct {
	*app
	compiled *plan.Compiled
	fix      bool // --fix
}

func (t *doctorText) before(r diagnosed) { ui.WriteDiagnosis(t.term, r.hosts) }

func (t *doctorText) nothingToFix() {
	fmt.Fprintln(t.term.Out, "There is nothing that --fix can fix.")
}

func (t *doctorText) plan(r *engine.Report) {
	fmt.Fprintln(t.term.Out)
	t.showPlan(r, false)
}

func (t *doctorText) result(r diagnosed) error {
	switch {
	case !t.fix:
		ui.WriteDiagnosis(t.term, r.hosts)
		t.suggestFix(r)
	case r.fixed != nil:
		fmt.Fprintf(t.term.Out, "\nDiagnosed again:\n\n")
		ui.WriteDiagnosis(t.term, r.hosts)
	}
	return nil
}

// suggestFix says how many of the findings --fix can fix.
func (t *doctorText) suggestFix(r diagnosed) {
	n := 0
	for _, d := range r.hosts {
		for _, f := range d.Found {
			if f.Fixable() {
				n++
			}
		}
	}
	if n > 0 && len(fixes(t.compiled, r.hosts).Nodes) > 0 {
		fmt.Fprintf(t.term.Out, "--fix can fix %d of them.\n", n)
	}
}

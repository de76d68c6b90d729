// Package jsonout has what commands print with --json (examples/schema).
package jsonout

import "nodejoin/cmd/nodejoin/internal/ui"

// problem is a failure of a step, nil if there is none. step and source may be empty.
func problem(err error, step, source string) *ui.Problem {
	if err == nil {
		return nil
	}
	p := ui.ProblemOf(err)
	p.Step, p.Source = step, source
	return &p
}

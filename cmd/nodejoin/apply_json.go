package main

import (
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// applyJSON writes an apply as a stream of JSON lines: its events, and a summary last.
type applyJSON struct {
	*ui.JSON
	environment string // of --env
}

func (applyJSON) plan(*engine.Report) {}

func (j applyJSON) result(r applied) {
	j.Last(jsonout.OfApply(j.environment, r.report, r.summary, r.pruned, r.code()))
}

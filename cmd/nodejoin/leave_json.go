package main

import (
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/ui"
)

// leaveJSON writes a leave as a stream of JSON lines: its events, and a summary last.
type leaveJSON struct{ *ui.JSON }

func (leaveJSON) plan(left) {}

func (j leaveJSON) result(r left) { j.Last(jsonout.OfLeave(r.report, r.summary, r.code())) }

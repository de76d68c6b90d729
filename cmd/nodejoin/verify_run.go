package main

import (
	"sync"

	"nodejoin/cmd/nodejoin/internal/runlog"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/verify"
)

// verifyEvents shows the progress of verify as events on the display.
type verifyEvents struct {
	mu      sync.Mutex
	display ui.Display
	log     *runlog.Log
}

func (t *verifyEvents) emit(e event.Event) {
	t.log.Emit(e)
	t.display.Emit(e)
}

// Waits shows what a test waits for.
func (t *verifyEvents) Waits(node, flow, observed string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.emit(event.StepProgress{Host: node, Step: flow, Note: observed})
}

// Done shows the result of a test.
func (t *verifyEvents) Done(r verify.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Status {
	case verify.Pass:
		t.emit(event.StepDone{Host: r.Node, Step: r.Flow, Result: "unchanged", Action: "wait", Duration: r.Took})
	case verify.Fail:
		t.emit(steps.Done(event.StepDone{Host: r.Node, Step: r.Flow, Duration: r.Took},
			&steps.Error{Code: steps.CodeFailed, Summary: r.Detail}))
	}
}

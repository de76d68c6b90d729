package main

import (
	"context"
	"sync"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// newDisplay shows progress on standard error; with --json only failures go there.
func (a *app) newDisplay() ui.Display {
	mode := a.display
	if a.json {
		mode = "quiet"
	}
	return ui.NewDisplay(mode, a.term)
}

// eventView is shown the events of a command, one at a time.
type eventView interface {
	Emit(event.Event)
}

// noEvents is a view that shows no events.
type noEvents struct{}

// Emit does nothing.
func (noEvents) Emit(event.Event) {}

// progress shows events in a view, and on the display of the phase that runs. A phase
// prints its result after its display has ended.
type progress struct {
	app     *app
	view    eventView
	display ui.Display
}

func (p *progress) begin() { p.display = p.app.newDisplay() }
func (p *progress) end()   { p.display.Close() }

func (p *progress) emit(e event.Event) {
	p.view.Emit(e)
	p.display.Emit(e)
}

// options of a session. Events come from several hosts at once; sink gets one at a time.
func (a *app) options(p *plan.Compiled, sink func(event.Event)) engine.Options {
	var mu sync.Mutex
	emit := func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		a.run.Emit(e)
		sink(e)
	}
	return engine.Options{
		Connect: connect.Hosts(emit), Cluster: connect.Cluster(p), Emit: emit, Parallel: a.parallel,
		Holder: a.holder, Gone: gone, Version: version, PlanDigest: a.digest, Members: a.members,
		AllowDowngrade: a.downgrade, Drain: a.drain, Resume: a.resume,
		PruneChanged: a.pruneChanged,
	}
}

// checkHosts compares the plan with its hosts.
func (a *app) checkHosts(ctx context.Context, p *plan.Compiled) *engine.Report {
	d := a.newDisplay()
	defer d.Close()
	s := engine.New(p, a.options(p, d.Emit))
	defer s.Close()
	return s.Check(ctx)
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/runlog"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

// newDisplay shows progress on standard error; with --json only failures go there.
func (a *app) newDisplay(w ui.Work) ui.Display {
	mode := a.display
	switch {
	case a.json:
		mode = "quiet"
	case a.debug:
		mode = "plain" // the log is on the same stream
	}
	return ui.NewDisplay(mode, a.term, w)
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

func (p *progress) begin(w ui.Work) { p.display = p.app.newDisplay(w) }
func (p *progress) end()            { p.display.Close() }

func (p *progress) emit(e event.Event) {
	p.view.Emit(e)
	p.display.Emit(e)
}

// beginLog starts the log that --log-file and --debug ask for.
func (a *app) beginLog(c *cobra.Command, _ []string) (err error) {
	a.began = time.Now()
	var debug io.Writer
	if a.debug {
		debug = a.term.Err
	}
	if a.log, err = runlog.Open(a.logFile, debug); err != nil {
		return err
	}
	flags := []string{}
	c.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	a.log.Begin(c.CommandPath(), version, flags)
	return nil
}

// options of a session. Events come from several hosts at once; sink gets one at a time.
func (a *app) options(p *plan.Compiled, sink func(event.Event)) engine.Options {
	var mu sync.Mutex
	emit := func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if s, ok := e.(event.HostState); ok && s.State == "agent_sent" {
			a.sent = append(a.sent, s.Host)
		}
		a.run.Emit(e)
		a.log.Emit(e)
		sink(e)
	}
	opt := engine.Options{
		Connect: connect.Hosts(emit, a.agent), Cluster: connect.Cluster(p), Emit: emit,
		Parallel: a.parallel.first(), More: a.parallel.more(),
		Holder: a.holder, Gone: holder.Gone, Version: version, PlanDigest: a.digest, Members: a.members,
		AllowDowngrade: a.downgrade, Drain: a.drain, Resume: a.resume,
		PruneChanged: a.pruneChanged, Mine: a.shard.Has, Shard: a.shard.String(), Group: os.Getenv("NODEJOIN_FLEET_JOB_UID"),
	}
	if a.alone != nil {
		opt = a.alone.Options(p, opt)
		a.holder = opt.Holder
	}
	return opt
}

// agentsStay says what a command that changed nothing has left on machines: the agent, which the next command
// finds there.
func (a *app) agentsStay() {
	if len(a.sent) == 0 || a.run != nil || a.json || a.display == "quiet" {
		return
	}
	slices.Sort(a.sent)
	names := slices.Compact(a.sent)
	on := ui.CleanLine(names[0])
	if n := len(names) - 1; n > 0 {
		on += fmt.Sprintf(" and %d other %s", n, plural(n, "machine"))
	}
	fmt.Fprintln(a.term.Err, ui.Fit(fmt.Sprintf("The agent of nodejoin is on %s now, for the next command; "+
		"'nodejoin leave' removes it, also where nothing has joined.", on), min(a.term.Width(), 100)))
}

// checkHosts compares the plan with its hosts.
func (a *app) checkHosts(ctx context.Context, p *plan.Compiled) *engine.Report {
	d := a.newDisplay(ui.OnHosts("Checking", p))
	defer d.Close()
	s := engine.New(p, a.options(p, d.Emit))
	defer s.Close()
	return s.Check(ctx)
}

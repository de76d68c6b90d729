// Package node is the service nodejoin-node of a machine. It brings the node back to work after a boot and, with a
// steps.Guard, keeps it so: it runs the node's own steps (steps.BootPlan), which the last apply left in a file, where
// they are not in order. Of the cluster's credentials it has the node's own tokens only, and it has no plan.
package node

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/wait"
)

// Run runs the boot part until a check finds everything in order and, with a Guard, again whenever something is not.
// It renews the node's tokens, and follows the plan that the file names, as long as it runs.
// It changes the machine only under its lock, which it takes only when there is something to do, and waits for other
// runs. It fails if the file cannot be used, and when ctx ends.
func Run(ctx context.Context, o Options) error {
	g := &guard{Options: o, metrics: metrics{say: o.Log, host: o.Host}}
	defer g.metrics.close()
	if err := g.open(ctx); err != nil {
		g.Report(Error, "The node is not looked after: "+err.Error())
		return err
	}
	g.Log(fmt.Sprintf("node %s: looking at %d steps", g.plan.Node, len(g.plan.Steps)))
	if err := g.remember(ctx); err != nil {
		return err
	}
	if f := g.plan.Follow; f != nil {
		following, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.follow(following, *f)
		}()
		defer func() {
			stop()
			<-done
		}()
	}
	for first := true; ; first = false {
		if err := g.round(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			g.failed(err)
		}
		g.tell(ctx, first)
		if g.plan.Guard == nil && len(g.plan.Tokens) == 0 && g.plan.Follow == nil && len(g.state.Problems) == 0 {
			return nil
		}
		if err := g.rest(ctx); err != nil {
			return err
		}
	}
}

// open reads the file of the steps.
func (g *guard) open(ctx context.Context) (err error) {
	g.ran, g.found, g.told = map[string]time.Time{}, map[string]string{}, map[string]bool{}
	g.unrenewed = map[string]string{}
	if g.Pause == 0 {
		g.Pause = firstPause
	}
	if g.Checks == nil {
		g.Checks = Checks
	}
	g.plan, err = readPlan(ctx, g.Host, g.Path)
	return err
}

// remember reads the facts of the machine, which may still be starting and have no network yet, and what an earlier
// process left.
func (g *guard) remember(ctx context.Context) (err error) {
	g.x = executor.NewExecutor(kinds.Catalog(), g.Host, none{}, g.event)
	g.x.RenewTokens(g.Tokens, g.Clock)
	for pause := g.Pause; ; pause = min(2*pause, maxPause) {
		if g.facts, err = g.Host.Facts(ctx); err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if pause == g.Pause { // once: the log has the rest
			g.Report(Error, fmt.Sprintf("Node %s cannot be looked at yet: %v", g.plan.Node, err))
		}
		g.Log(fmt.Sprintf("%v; next try in %v", err, pause))
		if err := wait.Pause(ctx, pause); err != nil {
			return err
		}
	}
	state, err := executor.GuardState(ctx, g.Host, g.facts)
	if err != nil {
		g.Log("what was seen last cannot be read, and counts as nothing: " + err.Error())
	}
	if state != nil {
		g.state = *state
	}
	if g.facts.BootTime.After(g.state.At) {
		g.state.Tries, g.state.HNS = nil, nil // of another life of the machine
	}
	if g.state.Tries == nil {
		g.state.Tries = map[string]steps.GuardTry{}
	}
	return nil
}

// failed notes that a round did not come to its end, for a reason that no step has.
func (g *guard) failed(err error) {
	g.tried("guard")
	g.problems([]steps.GuardProblem{{ID: "guard", Text: err.Error(), Next: g.due("guard")}})
}

// tell writes what has changed since the last round to the logs, and saves the state.
func (g *guard) tell(ctx context.Context, first bool) {
	now := map[string]bool{}
	var texts []string
	for _, p := range g.state.Problems {
		now[p.ID] = true
		if !g.told[p.ID] {
			texts = append(texts, p.String())
		}
	}
	node := g.plan.Node
	switch {
	case len(texts) > 0 && g.paused.Holds(time.Now()):
		g.report(Error, reasonWrong, fmt.Sprintf("Node %s is not in order, and paused %s: %s", node, g.paused,
			strings.Join(texts, "; ")))
	case len(texts) > 0:
		g.report(Error, reasonWrong, fmt.Sprintf("Node %s is not in order, and is tried again: %s", node,
			strings.Join(texts, "; ")))
	case len(now) > 0:
	case len(g.ended) > 0:
		done := strings.Join(g.ended, ", ")
		g.Log("everything is in order now; done: " + done)
		g.report(Info, reasonFixed, fmt.Sprintf("Node %s is in order again. Done: %s.", node, done))
	case len(g.told) > 0:
		g.Log("everything is in order again")
		g.report(Info, reasonRight, fmt.Sprintf("Node %s is in order again.", node))
	case first:
		g.Log("everything is in order")
		g.Report(Info, fmt.Sprintf("Node %s is in order.", node))
	}
	g.told = now
	if len(now) == 0 {
		g.ended = nil
	}
	g.save(context.WithoutCancel(ctx))
	g.tellCluster(ctx)
}

// save writes the state for status. Without a Guard nobody reads it.
func (g *guard) save(ctx context.Context) {
	if g.plan.Guard == nil {
		return
	}
	g.state.At, g.state.Interval = time.Now().UTC().Truncate(time.Second), g.plan.Guard.Interval
	if err := executor.SaveGuardState(ctx, g.Host, g.facts, g.state); err != nil {
		g.Log("what was seen is not saved: " + err.Error())
	}
	g.metrics.publish(ctx, g.plan, g.state, g.paused.Holds(time.Now()))
}

// rest waits for the next round: the Guard's interval, or less where something is tried again or HNS has lost its
// state.
func (g *guard) rest(ctx context.Context) error {
	now := time.Now()
	next := now.Add(g.Pause)
	switch {
	case g.plan.Guard != nil:
		next = now.Add(g.plan.Guard.Interval)
	case g.settled:
		next = now.Add(tokenLook)
	}
	for _, p := range g.state.Problems {
		// One that is due was not tried: the node is paused, or another run holds it.
		if p.Next.After(now) && (g.plan.Guard == nil || p.Next.Before(next)) {
			next = p.Next
		}
	}
	if len(g.state.Problems) > 0 && g.plan.Guard == nil {
		g.Log(fmt.Sprintf("next try in %v", time.Until(next).Round(time.Millisecond)))
	}
	debug.FreeOSMemory() // a check needs more than the time until the next one
	for {
		left := time.Until(next)
		if left <= 0 {
			return nil
		}
		if err := wait.Pause(ctx, min(left, hnsLook)); err != nil {
			return err
		}
		if now, lost := g.hnsLost(ctx); lost != "" && now != g.woke {
			g.woke = now
			return nil
		}
	}
}

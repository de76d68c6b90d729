package node

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/nodeapi"
)

// Level says who is to read a report.
type Level int

const (
	Info  Level = iota // it is well
	Error              // somebody may have to look
)

// Reporter tells the cluster what a Guard finds, with the node's own token. The implementation is nodeapi.Client.
type Reporter interface {
	SetCondition(ctx context.Context, at steps.TokenRenewal, node string, c nodeapi.Condition) error
	AddEvent(ctx context.Context, at steps.TokenRenewal, node string, e nodeapi.Event) error
}

// Options of Run.
type Options struct {
	Host host.Host
	Path string // of the file, on Host
	// LockDir is the folder with the lock of the machine, on this computer.
	LockDir string
	Log     func(line string)
	// Report writes to the machine's own event log.
	Report func(l Level, text string)
	// Pause is the first pause after a failure; it doubles up to maxPause. 0 = firstPause.
	Pause time.Duration
	// Checks are what is looked at besides the steps, by a Guard; nil = Checks.
	Checks []Check
	// Tokens renews the node's tokens; nil = it cannot. Clock judges their lives, nil = time.Now.
	Tokens steps.Tokens
	Clock  func() time.Time
	// Reporter tells the cluster what a Guard finds; nil = nobody does.
	Reporter Reporter
	// Starts starts a round of a node that follows a plan. ended has one error, that of its end.
	Starts func(f steps.Follow) (ended <-chan error, err error)
}

const (
	firstPause = 5 * time.Second
	maxPause   = 2 * time.Minute
	// A step that was tried manyTries times waits longer, up to longPause.
	manyTries = 10
	longPause = 30 * time.Minute
	// calm is how long a step has to stay in order until it counts as fixed for good.
	calm = 10 * time.Minute
	// maxPlan bounds what is read of the file (bytes); a node has about 10 kB.
	maxPlan = 1 << 20
	// lockLook is how often it reports that another run holds the machine.
	lockLook = time.Minute
	// hnsLook is how often it asks whether HNS has lost its state.
	hnsLook = 10 * time.Second
)

// reports is what the cluster knows, and is still to be told.
type reports struct {
	sent   nodeapi.Condition
	at     time.Time // when it was sent; zero = not yet
	events []nodeapi.Event
	failed string // the last failure that was logged
}

// guard is the state of one Run.
type guard struct {
	Options
	plan  steps.BootPlan
	facts host.Facts
	x     *executor.Executor
	state steps.GuardState

	paused *steps.GuardPause
	ran    map[string]time.Time // when a check was last made
	found  map[string]string    // what it found
	logged map[string]string    // steps that were not in order, with what was logged
	told   map[string]bool      // problems that were reported
	closed map[string]time.Time // since when gates are closed
	ended  []string             // steps that were fixed since all was in order
	// unrenewed are the tokens whose last renewal failed, with the reason.
	unrenewed map[string]string
	woke      steps.HNSSeen // what ended a rest last
	// endpoints of this machine in the HNS network, while all was in order.
	endpoints []host.HNSEndpoint
	// settled: all was in order once since the process began.
	settled bool

	metrics metrics
	cluster reports
}

func readPlan(ctx context.Context, h host.FilesReader, path string) (steps.BootPlan, error) {
	rc, err := h.Open(ctx, path)
	if err != nil {
		return steps.BootPlan{}, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, maxPlan))
	if err != nil {
		return steps.BootPlan{}, fmt.Errorf("read %s: %w", path, err)
	}
	p, err := steps.ReadBoot(b, kinds.Catalog())
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// problems replaces those of the state, and keeps since when each is there.
func (g *guard) problems(list []steps.GuardProblem) {
	since := map[string]time.Time{}
	for _, old := range g.state.Problems {
		since[old.ID] = old.Since
	}
	now := time.Now().UTC().Truncate(time.Second)
	if g.state.Since.IsZero() || (len(list) == 0) != (len(g.state.Problems) == 0) {
		g.state.Since = now
	}
	for i, p := range list {
		list[i].Since = now
		if t, ok := since[p.ID]; ok {
			list[i].Since = t
		}
	}
	g.state.Problems = list
}

// known is what HNS and its network are known by, with the endpoints of this machine.
type known struct {
	steps.HNSSeen
	endpoints []host.HNSEndpoint
}

// look is what one look at the machine found.
type look struct {
	list  []steps.Spec         // the steps that are to be in order, in their order
	wrong []steps.GuardProblem // those that are not
	lost  string               // why HNS has lost its state; "" = it has not
	by    *steps.LockHolder    // another run holds the machine, and is changing it; nil = none does
	known *known               // HNS before the steps were looked at, or after they were fixed; nil = not known
}

// has reports whether a step is wrong.
func (l look) has(s steps.Spec) bool {
	return slices.ContainsFunc(l.wrong, func(p steps.GuardProblem) bool { return p.ID == s.ID })
}

// tried notes a try of a step.
func (g *guard) tried(id string) {
	g.state.Tries[id] = steps.GuardTry{Count: g.state.Tries[id].Count + 1, Last: time.Now().UTC()}
}

// due is when a step may be tried again: at once the first time, then after pauses that grow.
func (g *guard) due(id string) time.Time {
	t := g.state.Tries[id]
	if t.Count == 0 {
		return time.Time{}
	}
	return t.Last.Add(g.pauseAfter(t.Count))
}

// pauseAfter is the pause after so many tries.
func (g *guard) pauseAfter(tries int) time.Duration {
	pause := g.Pause
	for i := 1; i < tries; i++ {
		limit := maxPause
		if i >= manyTries {
			limit = longPause
		}
		if pause = min(2*pause, max(limit, pause)); pause == longPause {
			break
		}
	}
	return pause
}

// fixed notes what an apply has changed.
func (g *guard) fixed(changed []string) {
	if len(changed) == 0 {
		return
	}
	g.ended = append(g.ended, changed...)
	g.state.Fixes++
	g.state.Fixed = &steps.GuardFix{At: time.Now().UTC().Truncate(time.Second), Steps: changed}
}

package pull

import (
	"context"
	"fmt"
	"time"

	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
)

const (
	lookEvery  = 15 * time.Second
	longestTry = time.Hour // then the next round waits
	// failureFor is how long a node that has failed counts as a failure of the rollout, unless it succeeds before.
	failureFor = 24 * time.Hour
)

// changed is what a round waits for whose file is not what it was.
const changed = "the next round, as the file of this one has changed"

// turn is the turn of this node in the rollout of a release, beside the other nodes that follow the plan. Each is a
// shard of its own, so the limits of the plan hold for them as for the pods of a fleet.
type turn struct {
	*Run
	rel Release
	end func(context.Context, engine.TurnEnd) // nil = it is not this node's turn
	// begun: the apply may change the machine.
	begun bool
	// held and code are the result of the round where it is not its turn.
	held Result
	code int
}

// shard is the part of the plan that this node is.
func (r *Run) shard() string { return "follow-" + r.file.Node }

// session is one that waits for the turn. The cluster that it opens is the round's.
func (t *turn) session(p *plan.Compiled, emit func(event.Event)) *engine.Session {
	own := *p
	if own.Cluster == nil {
		own.Cluster = &plan.Cluster{Name: t.file.Plan}
	}
	return engine.New(&own, engine.Options{Cluster: t.cluster, Emit: emit, Holder: t.holder, Shard: t.shard(),
		Group:     fmt.Sprintf("plan %s, release %d", t.file.Plan, t.rel.Serial),
		TurnEvery: lookEvery, FailureFor: failureFor})
}

// take waits until the rollout of the plan lets this node begin, and looks at the release once more then. If it is not
// this node's turn, held says why.
func (t *turn) take(ctx context.Context, p *plan.Compiled) {
	last, waits, said := time.Now().Add(longestTry), "", ""
	look := func() string {
		switch {
		case !t.file.stands(t.Path):
			waits = changed
		case !t.file.mayApply(time.Now()):
			waits = "its window"
		case time.Now().After(last):
			waits = "its turn: " + said
		}
		return waits
	}
	end, why, err := t.session(p, func(e event.Event) {
		s, _ := e.(event.HostState)
		switch {
		case s.Detail == "" || s.Detail == said:
		case said == "":
			t.waiting(ctx, t.rel, "its turn: "+s.Detail)
		default:
			t.Say("waiting: " + s.Detail)
		}
		said = s.Detail
	}).Turn(ctx, look)
	switch {
	case err != nil:
		t.held, t.code = t.failed(t.rel, &fetchedError{err})
	case waits != "":
		t.held = t.waits(t.rel, waits)
	case why != "":
		t.held = Result{Waiting, t.rel.Serial, fmt.Sprintf("release %d waits: %s", t.rel.Serial, why)}
	default:
		t.end = end
		t.again(ctx)
	}
}

// again looks at the release after the wait: one that has expired, or whose key is no longer trusted, is not applied.
func (t *turn) again(ctx context.Context) {
	now, _, err := t.file.release(ctx, t.store)
	switch {
	case err != nil:
		t.held, t.code = t.failed(t.rel, err)
	case now.Serial != t.rel.Serial || now.SHA256 != t.rel.SHA256:
		t.held = t.waits(t.rel, "the next round, as there is another release")
	}
}

// begin notes that the apply begins: an older release is refused from then on.
func (t *turn) begin(p *plan.Compiled) {
	next := state{Serial: t.rel.Serial, SHA256: t.rel.SHA256, Environment: p.Environment, Result: t.state.Result,
		Since: t.state.Since}
	if p.Cluster != nil {
		next.Cluster = p.Cluster.Name
	}
	if err := next.write(t.statePath()); err != nil {
		t.held, t.code = t.failed(t.rel, &ownError{err})
		return
	}
	t.state, t.begun = next, true
}

// ends ends the turn with the result of the apply.
func (t *turn) ends(ctx context.Context, result Result, code int) {
	if t.end == nil {
		return
	}
	end := engine.TurnFailed
	switch {
	case ctx.Err() != nil || !t.begun || result.Reason == Rebooting || code == exitLocked:
		end = engine.TurnOpen
	case result.Reason == Applied:
		end = engine.TurnDone
	case t.ended.paused() && !t.ended.begun(ctx, t.api, t.file.Node):
		end = engine.TurnOpen
	}
	t.end(ctx, end)
}

// holdUp notes for another day that this node has rolled back a release.
func (r *Run) holdUp(ctx context.Context, rel Release) {
	p := &plan.Compiled{Environment: r.state.Environment, Cluster: &plan.Cluster{Name: r.state.Cluster},
		Nodes: []plan.Node{{Name: r.file.Node}}}
	err := (&turn{Run: r, rel: rel}).session(p, func(event.Event) {}).NoteFailure(ctx)
	if err != nil {
		r.Say("the other nodes do not know of the failure: " + err.Error())
	}
}

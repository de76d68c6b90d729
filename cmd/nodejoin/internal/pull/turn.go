package pull

import (
	"context"
	"fmt"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
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
	file    *File
	rel     Release
	store   *artifact.Store
	holder  steps.LockHolder
	cluster func(context.Context) (kube.API, error)
	say     func(string)
	stands  func() bool // the file of the round is still what it was
	// waiting is told once, when others come first.
	waiting func(ctx context.Context, what string)

	end func(context.Context, engine.TurnEnd) error // nil = it is not this node's turn
	// held and code are the result of the round where it is not its turn.
	held Result
	code int
}

// shard is the part of the plan that a node is.
func shard(node string) string { return "follow-" + node }

// session is one that waits for the turn. The cluster that it opens is the round's.
func (t *turn) session(p *plan.Compiled, emit func(event.Event)) *engine.Session {
	own := *p
	if own.Cluster == nil {
		own.Cluster = &plan.Cluster{Name: t.file.Plan}
	}
	return engine.New(&own, engine.Options{Cluster: t.cluster, Emit: emit, Holder: t.holder, Shard: shard(t.file.Node),
		Group:     fmt.Sprintf("plan %s, release %d", t.file.Plan, t.rel.Serial),
		TurnEvery: lookEvery, FailureFor: failureFor})
}

// take waits until the rollout of the plan lets this node begin, and looks at the release once more then. If it is not
// this node's turn, held says why.
func (t *turn) take(ctx context.Context, p *plan.Compiled) {
	last, why, said := time.Now().Add(longestTry), "", ""
	look := func() string {
		switch {
		case !t.stands():
			why = changed
		case !t.file.mayApply(time.Now()):
			why = "its window"
		case time.Now().After(last):
			why = "its turn: " + said
		}
		return why
	}
	end, held, err := t.session(p, func(e event.Event) {
		if w, ok := e.(event.Warning); ok {
			t.say(w.Summary + ": " + w.Detail)
		}
		s, ok := e.(event.HostState)
		switch {
		case !ok:
			return
		case s.Detail == "" || s.Detail == said:
		case said == "":
			t.waiting(ctx, "its turn: "+s.Detail)
		default:
			t.say("waiting: " + s.Detail)
		}
		said = s.Detail
	}).Turn(ctx, look)
	switch {
	case err != nil:
		t.held, t.code = failed(t.rel, &fetchedError{err})
	case why != "":
		t.held = waits(t.rel, why)
	case held != "":
		t.held = Result{Waiting, t.rel.Serial, fmt.Sprintf("release %d waits: %s", t.rel.Serial, held)}
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
		t.held, t.code = failed(t.rel, err)
	case now.Serial != t.rel.Serial || now.SHA256 != t.rel.SHA256:
		t.held = waits(t.rel, "the next round, as there is another release")
	}
}

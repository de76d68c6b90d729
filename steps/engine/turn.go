package engine

import (
	"context"

	"nodejoin/steps"
)

// TurnEnd is how the turn of a node has ended.
type TurnEnd int

// The ends of a turn.
const (
	TurnDone   TurnEnd = iota // the node is as planned
	TurnFailed                // it counts as a failure of the rollout
	TurnOpen                  // the next run goes on with it
	TurnUnused                // it has not begun
)

// Turn waits until the plan's rollout lets the only node of the session begin, beside the runs of other nodes, and
// returns what ends its turn, with an error if the others do not know how it did. If why is not empty, the node may
// not begin in this run; err is why the cluster could not be asked. look is asked before each attempt why the run no
// longer wants to; "" = it does. A run that has its turn says so with InTurn to the session that applies.
func (s *Session) Turn(ctx context.Context, look func() string) (end func(context.Context, TurnEnd) error,
	why string, err error) {
	if err := s.open(ctx); err != nil {
		return nil, "", err
	}
	h := s.hosts[0]
	n, err := s.api.Node(ctx, h.node.Name)
	if err != nil {
		return nil, "", err
	}
	h.report.KubeNode = &n
	b := s.budget()
	var cause error
	b.look, b.cause = look, &cause
	w := &wave{budget: b, limits: s.plan.Rollout.Limits}
	stopped := func() string {
		if ended := look(); ended != "" {
			return ended
		}
		return b.stoppedNow(ctx)
	}
	why = w.turn(ctx, h, stopped)
	switch {
	case cause != nil:
		return nil, "", cause
	case why != "":
		return nil, why, nil
	}
	slot, why := b.slot(ctx, h)
	if why != "" {
		w.giveUp(ctx, h.node.Name)
		if cause != nil {
			return nil, "", cause
		}
		return nil, why, nil
	}
	letGo := b.keep(context.WithoutCancel(ctx), slot)
	return func(ctx context.Context, e TurnEnd) error {
		defer letGo()
		switch e {
		case TurnUnused:
			w.giveUp(ctx, h.node.Name)
		case TurnDone, TurnFailed:
			w.end(ctx, HostSummary{Node: h.node.Name, Err: map[TurnEnd]error{TurnFailed: errTurn}[e]})
			return s.noteFailure(ctx, h.node.Name, e == TurnFailed)
		case TurnOpen:
		}
		return nil
	}, "", nil
}

// errTurn stands for what a turn failed with.
var errTurn = &steps.Error{Code: steps.CodeFailed, Summary: "the turn failed"}

// NoteFailure notes once more that the only node of the session has failed, so that it goes on to count.
func (s *Session) NoteFailure(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.noteFailure(ctx, s.hosts[0].node.Name, true)
}

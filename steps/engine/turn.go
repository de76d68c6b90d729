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
	TurnOpen                  // it has not begun, or the next run goes on with it
)

// Turn waits until the plan's rollout lets the only node of the session begin, beside the runs of other nodes, and
// returns what ends its turn. If why is not empty, the node may not begin in this run. look is asked before each
// attempt why the run no longer wants to; "" = it does. A run that has its turn says so with InTurn to the session
// that applies.
func (s *Session) Turn(ctx context.Context, look func() string) (end func(context.Context, TurnEnd), why string,
	err error) {
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
	b.look = look
	w := &wave{budget: b, limits: s.plan.Rollout.Limits}
	stopped := func() string {
		if ended := look(); ended != "" {
			return ended
		}
		list, err := s.api.Leases(ctx, leaseName(s.planName())+".")
		if err != nil {
			return "" // its slot says so
		}
		return b.stopped(list)
	}
	if why = w.turn(ctx, h, stopped); why != "" {
		return nil, why, nil
	}
	slot, why := b.slot(ctx, h)
	if why != "" {
		w.giveUp(ctx, h.node.Name)
		return nil, why, nil
	}
	letGo := b.keep(context.WithoutCancel(ctx), slot)
	return func(ctx context.Context, e TurnEnd) {
		if e != TurnOpen {
			w.end(ctx, HostSummary{Node: h.node.Name, Err: map[TurnEnd]error{TurnFailed: errTurn}[e]})
			b.noteFailure(ctx, h.node.Name, e == TurnFailed)
		}
		letGo()
	}, "", nil
}

// errTurn stands for what a turn failed with.
var errTurn = &steps.Error{Code: steps.CodeFailed, Summary: "the turn failed"}

// NoteFailure notes once more that the only node of the session has failed, so that it goes on to count.
func (s *Session) NoteFailure(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	s.budget().noteFailure(ctx, s.hosts[0].node.Name, true)
	return nil
}

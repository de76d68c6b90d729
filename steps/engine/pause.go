package engine

import (
	"context"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/transport/wire"
)

// Paused is one node after Pause.
type Paused struct {
	Node  plan.Node
	Reply executor.PauseReply
	Err   error // it stays as it was
}

// Pause has the guard of every node fix nothing; nil ends that. The cluster is not asked.
func (s *Session) Pause(ctx context.Context, p *steps.GuardPause) []Paused {
	out := make([]Paused, len(s.hosts))
	index := s.index()
	s.each(ctx, func(ctx context.Context, h *hostRun) {
		reply, err := h.pause(ctx, executor.PauseRequest{Pause: p, Plan: h.planName()})
		out[index[h]] = Paused{Node: h.node, Reply: reply, Err: err}
	}, func(h *hostRun, err error) { out[index[h]] = Paused{Node: h.node, Err: err} })
	return out
}

// pause, and its end, do not need the lock of a machine on which a run is at work: the pause is a file, and a run of
// the machine itself looks for it before each of its steps.
func (h *hostRun) pause(ctx context.Context, req executor.PauseRequest) (r executor.PauseReply, err error) {
	held := h.hold(ctx)
	if held == nil || steps.AsError(held).Code == steps.CodeLocked {
		defer h.letGo(ctx)
		r, err = ask(ctx, h, "pausing", wire.Pause, req)
	} else {
		err = held
	}
	if err == nil && held != nil && req.Pause != nil {
		h.emit(event.Warning{Host: h.node.Name, Summary: "a run is at work on the machine",
			Detail: steps.AsError(held).Detail + "; a round of a node that follows its plan ends before its " +
				"next step, any other run goes on"})
	}
	if err != nil {
		h.state("failed", "")
	} else {
		h.state("done", "")
	}
	return r, err
}

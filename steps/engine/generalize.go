package engine

import (
	"context"

	"nodejoin/plan"
	"nodejoin/steps/generalize"
	"nodejoin/steps/transport/wire"
)

// Generalized is one host after Generalize.
type Generalized struct {
	Node  plan.Node
	Reply generalize.Reply
	Err   error // it is not known what is left
}

// Generalize makes every host fit to be copied, with a request of its own. The cluster is not asked.
func (s *Session) Generalize(ctx context.Context, req func(plan.Node) generalize.Request) []Generalized {
	out := make([]Generalized, len(s.hosts))
	index := s.index()
	s.each(ctx, func(ctx context.Context, h *hostRun) {
		reply, err := h.generalize(ctx, req(h.node))
		out[index[h]] = Generalized{Node: h.node, Reply: reply, Err: err}
	}, func(h *hostRun, err error) { out[index[h]] = Generalized{Node: h.node, Err: err} })
	return out
}

func (h *hostRun) generalize(ctx context.Context, req generalize.Request) (r generalize.Reply, err error) {
	if !req.Check {
		err = h.hold(ctx)
		defer h.letGo(ctx)
	}
	if err == nil {
		r, err = ask(ctx, h, "applying", wire.Generalize, req)
	}
	if err != nil {
		h.state("failed", "")
	} else {
		h.state("done", "")
	}
	return r, err
}

package engine

import (
	"context"

	"nodejoin/plan"
	"nodejoin/steps/selftest"
	"nodejoin/steps/transport/wire"
)

// SelfTested is the self-test of one host.
type SelfTested struct {
	Node   plan.Node
	Report selftest.Report
	Err    error // the host could not be tested
}

// SelfTest has every host test itself. It changes the hosts and restores each at the end. The cluster is not
// asked.
func (s *Session) SelfTest(ctx context.Context, req selftest.Request) []SelfTested {
	out := make([]SelfTested, len(s.hosts))
	index := s.index()
	s.each(ctx, func(ctx context.Context, h *hostRun) {
		report, err := h.selfTest(ctx, req)
		out[index[h]] = SelfTested{Node: h.node, Report: report, Err: err}
	}, func(h *hostRun, err error) { out[index[h]] = SelfTested{Node: h.node, Err: err} })
	return out
}

func (h *hostRun) selfTest(ctx context.Context, req selftest.Request) (r selftest.Report, err error) {
	if err = h.hold(ctx); err == nil {
		defer h.letGo(ctx)
		r, err = ask(ctx, h, "testing", wire.SelfTest, req)
	}
	if err != nil {
		h.state("failed", "")
	} else {
		h.state("done", "")
	}
	return r, err
}

package engine

import (
	"context"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/transport/wire"
)

// halted is the error of a run that may be paused, on a machine that is; nil = it goes on.
func (h *hostRun) halted(ctx context.Context) error {
	if !h.opt.Pausable {
		return nil
	}
	reply, err := ask(ctx, h, "applying", wire.Check, h.request(nil))
	if err == nil && reply.Paused.Holds(time.Now()) {
		err = steps.PausedError(reply.Paused)
	}
	return err
}

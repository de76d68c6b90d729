package engine

import (
	"context"

	"nodejoin/steps"
	"nodejoin/steps/transport/wire"
)

// rebootsSelf reports whether the run ends with a reboot of the machine that it runs on.
func (h *hostRun) rebootsSelf() bool {
	_, may := h.reboots()
	return may && h.node.Connection.Type == "local"
}

// RebootSelf reboots the machine that this process runs on, if Apply left that to it
// (HostSummary.GoesDown). It returns once the machine has accepted the reboot.
func (s *Session) RebootSelf(ctx context.Context) error {
	for _, h := range s.hosts {
		if h.goesDown == nil {
			continue
		}
		if err := h.connect(ctx); err != nil {
			return err
		}
		reply, err := do(ctx, h, wire.Apply, h.request([]steps.Spec{*h.goesDown}), h.emit)
		if err == nil && reply.Err != nil {
			err = reply.Err
		}
		return err
	}
	return nil
}

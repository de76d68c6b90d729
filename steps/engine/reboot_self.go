package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// Resume is what lets a machine finish its plan by itself after a boot.
type Resume struct {
	Steps   []steps.Spec // that make it so
	Service string       // that does it
	Log     string       // of what it did, a path on the machine
}

// resume returns what finishes the plan on this process's machine, or why nothing can.
func (s *Session) resume(n plan.Node, f host.Facts) (*Resume, error) {
	if s.opt.Resume == nil {
		return nil, errors.New("nodejoin runs on this machine itself")
	}
	return s.opt.Resume(n, f)
}

// rebootsSelf reports whether the run ends with a reboot of the machine that it runs on.
func (h *hostRun) rebootsSelf() bool {
	_, may := h.reboots()
	return may && h.node.Connection.Type == "local"
}

// self makes the machine that this process runs on finish the plan after its next
// boot, and ends the host's run. The reboot itself is for RebootSelf, when nothing else
// is left to do.
func (h rebooting) self(ctx context.Context, why []string) {
	sum := h.sum
	sum.Failed, sum.Source = h.spec.ID, h.spec.Source
	r, err := h.resume(h.node, h.report.Facts)
	var reply executor.ApplyReply
	if err == nil {
		reply, err = do(ctx, h.hostRun, wire.Apply, executor.Request{Node: h.node.Name, Steps: r.Steps}, h.emit)
	}
	h.connMutations = reply.Mutations
	sum.Mutations = h.lostMutations + h.connMutations
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	if err != nil {
		sum.Err = err
		return
	}
	h.goesDown = &h.spec
	sum.GoesDown = true
	sum.Err = &steps.Error{Code: steps.CodeReboot, Summary: "this machine is rebooted now",
		Detail: fmt.Sprintf("%s is rebooted for %s, and nodejoin ends with it", h.node.Name, strings.Join(why, ", ")),
		Remedy: fmt.Sprintf("wait: the service %s does the rest of the plan on this machine after the boot, once; "+
			"what it did is in %s then, and in 'nodejoin history'", r.Service, r.Log)}
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

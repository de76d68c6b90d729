package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/wait"
)

const (
	// rebootFor bounds the time in which a machine goes down and comes back. One that completes updates
	// takes a quarter of an hour.
	rebootFor = 30 * time.Minute
	// rebootLook is the pause between two checks meanwhile.
	rebootLook = 2 * time.Second
	// comingUp is how long after a boot a service may end by itself, because what it needs
	// does not answer yet: Windows starts all of them at once.
	comingUp = 3 * time.Minute
)

// reboots returns the step with which this run would reboot the machine; may is false if it may not.
func (h *hostRun) reboots() (id string, may bool) {
	for _, s := range h.report.Steps {
		if need := s.Result.Change.Reboot; need != nil && s.Result.Err == nil {
			why := h.mayReboot(s.Spec)
			return s.Spec.ID, why == ""
		}
	}
	return "", false
}

// mayReboot returns why this run may not reboot the machine now; "" = it may.
func (h *hostRun) mayReboot(spec steps.Spec) (why string) {
	var args kinds.Reboot
	if err := json.Unmarshal(spec.Args.JSON(), &args); err != nil {
		return err.Error()
	}
	if _, why = args.May(h.now()); why == "" && h.node.Connection.Type == "local" {
		if _, err := h.resume(h.node, h.report.Facts); err != nil {
			why = err.Error()
		}
	}
	return why
}

// now is the controller's clock.
func (s *Session) now() time.Time {
	if s.opt.Now != nil {
		return s.opt.Now()
	}
	return time.Now()
}

// applyReboot reboots the machine where something needs it and the plan lets it, and
// waits until it is back. If it may not, the run ends here if later steps need the reboot, and otherwise
// reports it at the end.
func (h *hostRun) applyReboot(ctx context.Context, spec steps.Spec, sum *HostSummary) {
	rebooting{h, spec, sum}.run(ctx)
}

// rebooting is the reboot of a machine by the step of the plan.
type rebooting struct {
	*hostRun
	spec steps.Spec
	sum  *HostSummary
}

func (h rebooting) run(ctx context.Context) {
	c, err := h.check(ctx)
	if err != nil {
		h.sum.Failed, h.sum.Source, h.sum.Err = h.spec.ID, h.spec.Source, err
		return
	}
	if c.NoOp() {
		h.sum.Unchanged = append(h.sum.Unchanged, h.spec.ID)
		return
	}
	why := h.mayReboot(h.spec)
	if why == "" && h.report.KubeNode != nil && !h.stopsFirst(h.spec.ID) && !h.report.Interruption.reboots() {
		why = "this was not known when the run began, so its pods were not moved"
	}
	if why != "" { // also one that an earlier run has asked for, and that did not come
		e := &steps.Error{Code: steps.CodeReboot, Summary: "a reboot is pending",
			Detail: fmt.Sprintf("%s is to be rebooted for %s; %s", h.node.Name, strings.Join(c.Reboot.Why, ", "), why),
			Remedy: "reboot it when it suits, then apply again, which continues from here; or let the plan do it: " +
				"host { reboot = \"auto\" }"}
		if c.Reboot.Blocks {
			h.sum.Failed, h.sum.Source, h.sum.Err = h.spec.ID, h.spec.Source, e
		} else {
			h.sum.Unchanged, h.rebootLeft = append(h.sum.Unchanged, h.spec.ID), e
		}
		return
	}
	if h.node.Connection.Type == "local" {
		h.self(ctx, c.Reboot.Why)
		return
	}
	reply, err := do(ctx, h.hostRun, wire.Apply, h.request([]steps.Spec{h.spec}), h.emit)
	switch {
	case err == nil && reply.Err != nil:
		err = reply.Err
	case err == nil:
		h.connMutations = reply.Mutations
	case dropped(err):
		err = nil // it may have gone down at once; else it is sent again
	}
	if err == nil {
		h.lostMutations, h.connMutations = h.lostMutations+h.connMutations, 0
		h.sum.Mutations = h.lostMutations
		h.awaited = true // it keeps its place: --parallel also bounds the machines that reboot at once
		err = h.phase(ctx, "boot", func() error { return h.await(ctx) })
		h.awaited = false
	}
	if err == nil {
		h.booted = time.Now()
		err = h.outlived(ctx)
	}
	if err != nil {
		h.sum.Failed, h.sum.Source, h.sum.Err = h.spec.ID, h.spec.Source, err
		return
	}
	h.sum.Changed = append(h.sum.Changed, h.spec.ID)
}

// check asks the machine what needs a reboot.
func (h rebooting) check(ctx context.Context) (steps.Change, error) {
	reply, err := retryDropped(ctx, h.hostRun, "applying", func() (executor.CheckReply, error) { return h.ask(ctx) })
	if err != nil {
		return steps.Change{}, err
	}
	return reply.Results[0].Change, nil
}

func (h rebooting) ask(ctx context.Context) (executor.CheckReply, error) {
	reply, err := do(ctx, h.hostRun, wire.Check, h.request([]steps.Spec{h.spec}), nil)
	switch {
	case err != nil:
	case len(reply.Results) != 1:
		err = fmt.Errorf("one check was asked for, %d were answered", len(reply.Results))
	case reply.Results[0].Err != nil:
		err = reply.Results[0].Err
	}
	return reply, err
}

// await waits until the machine has booted, which is when the note of the request to reboot is gone: it may
// take long to go down, and its clock may be wrong. Other answers, and none, mean that it is not up yet. Then
// await locks the machine again. It fails if the same reboot is still needed.
func (h rebooting) await(ctx context.Context) error {
	bound, cancel := context.WithTimeout(ctx, rebootFor)
	defer cancel()
	h.disconnect()
	shown, last := "", "nothing of it"
	for {
		c, err := h.checkBooted(bound)
		seen := "it is going down"
		switch {
		case err == nil && c.NoOp():
			h.state("applying", "")
			return nil
		case err == nil && !c.Reboot.Asked:
			return &steps.Error{Code: steps.CodeFailed, Summary: "a reboot was not enough",
				Detail: fmt.Sprintf("%s has rebooted, and still wants it for %s", h.node.Name, strings.Join(c.Reboot.Why, ", ")),
				Remedy: "look into the event log of the machine (Setup, System) for what failed; then apply again"}
		case err != nil && permanent(err):
			return err
		case err != nil:
			h.disconnect()
			seen = "it is not ready yet"
			if unanswered(err) {
				seen = "it does not answer"
			}
		}
		if bound.Err() == nil {
			last = seen
			if err != nil {
				last += ": " + err.Error()
			}
		}
		if seen != shown {
			shown = seen
			h.state("rebooting", seen)
		}
		if wait.Pause(bound, rebootLook) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &steps.Error{Code: steps.CodeTimeout, Summary: "not back in time",
				Detail: fmt.Sprintf("%s has not come back within %s of its reboot; last seen: %s", h.node.Name,
					rebootFor, last), Remedy: "look at its console; the next apply continues from here"}
		}
	}
}

// comesUp reports whether a step may have failed because this run has rebooted the machine a
// short time ago: it is a service, or waits for something.
func (h *hostRun) comesUp(d event.StepDone) bool {
	service := slices.ContainsFunc(h.node.Steps, func(s steps.Spec) bool {
		return s.ID == d.Step && (kinds.Of(s).Runs != nil || kinds.Of(s).Gate != nil)
	})
	return (service || d.Action == string(steps.ActionWait)) && !h.booted.IsZero() && time.Since(h.booted) < comingUp
}

// services are those of the node before a step.
func (h *hostRun) services(before string) []steps.Spec {
	var out []steps.Spec
	for _, s := range h.node.Steps {
		if s.ID == before {
			break
		}
		if kinds.Of(s).Runs != nil {
			out = append(out, s)
		}
	}
	return out
}

// outlived checks that changes which take effect only after the reboot are still there: Windows undoes at
// boot what it cannot finish.
func (h rebooting) outlived(ctx context.Context) error {
	var made []steps.Spec
	for _, s := range h.node.Steps {
		if s.ID == h.spec.ID {
			break
		}
		if kinds.Of(s).AfterBoot {
			made = append(made, s)
		}
	}
	if len(made) == 0 {
		return nil
	}
	reply, err := ask(ctx, h.hostRun, "applying", wire.Check, h.request(made))
	if err != nil {
		return err
	}
	for _, r := range reply.Results {
		if r.Err != nil {
			return r.Err
		}
		if !r.Change.NoOp() {
			return &steps.Error{Code: steps.CodeFailed, Summary: "a change did not outlive the reboot",
				Detail: fmt.Sprintf("step %s: Windows undid it while %s booted", r.ID, h.node.Name),
				Remedy: "look into the event log of the machine (Setup) and C:\\Windows\\Logs\\CBS\\CBS.log for " +
					"why; then apply again"}
		}
	}
	return nil
}

// permanent reports whether waiting does not help against err: it is another machine, its key is lost, the
// controller has no room, or another run holds it.
func permanent(err error) bool {
	if ce := (*transport.ConnectError)(nil); errors.As(err, &ce) {
		return ce.Reason == transport.ReasonHostKey || ce.Reason == transport.ReasonUnknownHost ||
			ce.Reason == transport.ReasonAnswer || ce.Reason == transport.ReasonForward ||
			ce.Reason == transport.ReasonKey || ce.Reason == transport.ReasonController
	}
	return steps.AsError(err).Code == steps.CodeLocked
}

// unanswered reports whether err comes from the connection, not from the machine.
func unanswered(err error) bool {
	var ce *transport.ConnectError
	return errors.As(err, &ce) && ce.Reason == transport.ReasonUnreachable || dropped(err)
}

// checkBooted reconnects if needed, and checks.
func (h rebooting) checkBooted(ctx context.Context) (c steps.Change, err error) {
	if err := h.connect(ctx); err != nil {
		return c, err
	}
	reply, err := h.ask(ctx)
	if err != nil {
		return c, err
	}
	if c = reply.Results[0].Change; c.NoOp() && h.holds {
		err = h.lock(ctx)
	}
	return c, err
}

// resume returns what finishes the plan on this process's machine, or why nothing can.
func (s *Session) resume(n plan.Node, f host.Facts) (*Resume, error) {
	if s.opt.Resume == nil {
		return nil, errors.New("nodejoin runs on this machine itself")
	}
	return s.opt.Resume(n, f)
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

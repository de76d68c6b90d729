package engine

import (
	"context"
	"errors"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/transport"
)

// part is a part of a run that is not a step of the plan but shown as one.
type part struct {
	id     string
	kind   string // "node" or "leave"
	action steps.Action
}

// phase runs a part of an apply that changes the Node or the machine.
func (h *hostRun) phase(ctx context.Context, id string, f func() error) error {
	return h.shown(ctx, part{id: id, kind: "node", action: steps.ActionUpdate}, f)
}

// shown runs a part between the events of its start and end.
func (h *hostRun) shown(ctx context.Context, p part, f func() error) error {
	start := time.Now()
	h.emit(event.StepStarted{Host: h.node.Name, Step: p.id, Kind: p.kind, Action: string(p.action)})
	err := f()
	if ctx.Err() != nil {
		command := "apply"
		if p.kind == "leave" {
			command = "leave"
		}
		err = steps.Interrupted(command)
	}
	d := event.StepDone{Host: h.node.Name, Step: p.id, Result: "changed", Action: string(p.action),
		Duration: time.Since(start)}
	shown := err
	if ce := (*transport.ConnectError)(nil); errors.As(err, &ce) {
		shown = &steps.Error{Summary: ce.Summary, Detail: ce.Detail, Remedy: ce.Remedy}
	}
	h.emit(steps.Done(d, shown))
	return err
}

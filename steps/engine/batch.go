package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/wait"
)

// batch is consecutive host steps that go out in one call, so that a step costs no
// round trip of its own. After a lost connection the rest of them is sent again.
type batch struct {
	*hostApply
	specs    []steps.Spec // still to be sent
	last     bool         // nothing comes after these steps
	staged   map[string]bool
	done     map[string]bool // steps that the running call has done: whether they changed
	starting bool            // a step failed while services still start after a boot
	drops    int             // in a row, without a step done in between
}

func (a *hostApply) applyBatch(ctx context.Context, specs []steps.Spec, last bool) {
	b := &batch{hostApply: a, specs: specs, last: last, staged: map[string]bool{}}
	for again := true; again; {
		reply, err := b.send(ctx)
		if err != nil {
			again = b.broken(ctx, err)
		} else {
			again = b.answered(ctx, reply)
		}
	}
}

// send makes the call, after the artifacts that its steps will read.
func (b *batch) send(ctx context.Context) (executor.ApplyReply, error) {
	b.done, b.starting = map[string]bool{}, false
	if err := b.stage(ctx); err != nil {
		return executor.ApplyReply{}, err
	}
	req := b.request(b.specs)
	req.Snapshot, req.Logins = b.rollbackTo, b.plan.Logins
	return b.around(ctx, req)
}

// call makes the call itself.
func (b *batch) call(ctx context.Context, req executor.Request) (executor.ApplyReply, error) {
	return do(ctx, b.hostRun, wire.Apply, req, func(e event.Event) {
		d, ok := e.(event.StepDone)
		switch {
		case ok && d.Result != "failed":
			b.done[d.Step] = d.Result == "changed"
		case ok && b.comesUp(d):
			b.starting = true
			note := d.Summary + "; the machine has just booted, so it is tried again"
			e = event.StepProgress{Host: d.Host, Step: d.Step, Note: note}
		}
		b.emit(e)
	})
}

// around makes the call of a batch. The first one may take the lock of the host, the last one notes the run and
// releases the lock, so that neither costs a round trip.
func (b *batch) around(ctx context.Context, req executor.Request) (executor.ApplyReply, error) {
	if b.last {
		n := b.runNote(ctx, b.sum, b.start)
		req.Note = &n
	}
	if b.lockNext {
		req.Lock = &steps.LockRequest{Holder: b.opt.Holder}
	}
	reply, err := b.call(ctx, req)
	if again, failed := b.lockedBy(ctx, req, reply, err); failed != nil {
		return reply, failed
	} else if again {
		req.Lock = nil
		reply, err = b.call(ctx, req)
	}
	if err == nil && reply.Noted {
		b.holds = false
	}
	return reply, err
}

// lockedBy handles what a call says of the lock that it was to take. again: the host is locked now, and its steps have
// not run.
func (b *batch) lockedBy(ctx context.Context, req executor.Request, reply executor.ApplyReply, err error) (again bool,
	failed error) {
	var ce *transport.ConnectError
	var refused *steps.Error
	switch {
	case req.Lock == nil:
		return false, nil
	case err == nil && reply.Lock.By == nil:
		b.locked(*reply.Lock)
		return reply.Lock.Left != nil, nil
	case err == nil, ctx.Err() == nil && !errors.As(err, &ce) && errors.As(err, &refused):
		failed = b.lock(ctx)
		return failed == nil, failed
	}
	b.unanswered = true
	return false, nil
}

// answered takes a reply; again is true where there is more to send.
func (b *batch) answered(ctx context.Context, reply executor.ApplyReply) (again bool) {
	b.take(reply, &b.sum)
	if reply.Err == nil {
		return false
	}
	at := slices.IndexFunc(b.specs, func(s steps.Spec) bool { return s.ID == reply.Failed })
	if at < 0 {
		b.sum.Err = reply.Err // of no step that was sent
		return false
	}
	if reply.Err.Code == steps.CodeInterrupted && ctx.Err() == nil { // nobody has stopped this run
		reply.Err.Code = steps.CodeFailed
	}
	if reply.Err.Code == steps.CodePaused { // it has not begun this step
		b.sum.Err = reply.Err
		return false
	}
	rest := b.specs[at:]
	switch {
	case reply.Err.Code == steps.CodeBlobMissing && !b.staged[reply.Failed] && blobOf(rest[0]).File != "":
		b.pending[reply.Failed] = true // the check did not foresee it: it is sent now
		b.specs = rest
		return true
	case b.starting && wait.Pause(ctx, rebootLook) == nil:
		b.specs = append(b.services(reply.Failed), rest...)
		return true
	}
	b.sum.Failed, b.sum.Source, b.sum.Err = reply.Failed, rest[0].Source, reply.Err
	return false
}

// broken handles a call without an answer; again is true once a lost connection is back.
func (b *batch) broken(ctx context.Context, err error) (again bool) {
	var se *stageError
	switch {
	case ctx.Err() != nil:
		b.sum.Err = steps.Interrupted("apply")
		return false
	case !dropped(err) && errors.As(err, &se):
		b.sum.Failed, b.sum.Source, b.sum.Err = se.spec.ID, se.spec.Source, se.err
		return false
	case !dropped(err):
		b.sum.Err = err
		return false
	}
	b.keepDone()
	b.lostMutations += b.connMutations
	b.connMutations = 0
	if b.drops++; b.drops > maxDrops {
		b.sum.Err = &transport.ConnectError{
			Reason: transport.ReasonUnreachable, Host: b.node.Name, Summary: "connection lost",
			Detail: fmt.Sprintf("it was lost %d times in a row without a step done: %v", maxDrops, err),
			Remedy: "look at the network and the SSH server of the host; the next apply continues from here", Err: err,
		}
		return false
	}
	b.sum.Err = b.reconnect(ctx, err, "applying")
	return b.sum.Err == nil
}

// keepDone counts the steps that were done before the connection was lost; they are not
// sent again. Their outputs are lost with the reply, so from the first step that gives
// any, the steps run again: they find everything in order.
func (b *batch) keepDone() {
	n := 0
	for n < len(b.specs) {
		changed, ok := b.done[b.specs[n].ID]
		if !ok {
			break
		}
		b.count(b.specs[n].ID, changed, &b.sum)
		n++
	}
	if n > 0 {
		b.drops = 0
	}
	first := slices.IndexFunc(b.specs[:n], func(s steps.Spec) bool {
		k, _ := kinds.Lookup(s.Kind)
		return len(k.Outputs) > 0
	})
	if first >= 0 {
		n = first
	}
	b.specs = b.specs[n:]
}

// take adds a reply to the summary and to the known values.
func (h *hostRun) take(reply executor.ApplyReply, sum *HostSummary) {
	maps.Copy(h.values, reply.Values)
	for _, id := range reply.Changed {
		h.count(id, true, sum)
	}
	for _, id := range reply.Unchanged {
		h.count(id, false, sum)
	}
	h.connMutations = reply.Mutations
	sum.Mutations = h.lostMutations + h.connMutations
}

// count adds a step that is done; one that was changed once stays changed.
func (h *hostRun) count(id string, changed bool, sum *HostSummary) {
	if slices.Contains(sum.Changed, id) {
		return
	}
	if i := slices.Index(sum.Unchanged, id); i >= 0 {
		if !changed {
			return
		}
		sum.Unchanged = slices.Delete(sum.Unchanged, i, i+1)
	}
	if changed {
		sum.Changed = append(sum.Changed, id)
	} else {
		sum.Unchanged = append(sum.Unchanged, id)
	}
}

// stage brings the controller's artifacts that the steps will read.
func (b *batch) stage(ctx context.Context) error {
	for _, spec := range b.specs {
		if !b.pending[spec.ID] || b.staged[spec.ID] {
			continue
		}
		src := blobOf(spec)
		if src.File == "" {
			continue
		}
		err := b.stageOne(ctx, spec, src)
		if err != nil {
			if dropped(err) || ctx.Err() != nil {
				return err
			}
			b.emit(steps.Done(event.StepDone{Host: b.node.Name, Step: spec.ID, Source: spec.Source}, err))
			return &stageError{spec: spec, err: steps.AsError(err)}
		}
		b.staged[spec.ID] = true
	}
	return nil
}

func (b *batch) stageOne(ctx context.Context, spec steps.Spec, src steps.Source) error {
	content, e := b.content(ctx, src)
	if e != nil {
		return e
	}
	return b.conn.Stage(ctx, content, func(done, total int64) {
		b.emit(event.StepProgress{Host: b.node.Name, Step: spec.ID, Done: done, Total: total, Note: "sending"})
	})
}

// stageError says that an artifact of a step could not be brought to the host.
type stageError struct {
	spec steps.Spec
	err  *steps.Error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

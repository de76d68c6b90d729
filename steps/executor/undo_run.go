package executor

import (
	"context"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/record"
)

// undoTimeout bounds the undoing of one thing. A service may take minutes to stop; a
// runtime's folder may hold 100000 files.
const undoTimeout = 10 * time.Minute

// undoRun undoes things one after another, for a leave or a rollback: each is checked,
// undone where that is needed, and checked again.
type undoRun struct {
	x       *Executor
	node    string
	command string // kind of its events: "leave", "rollback" or "remove"
	// undoes reports whether the run undoes a claim; nil = it undoes all of them.
	undoes func(record.Key) bool
	// undone notes in the record that a thing is undone; nil = the whole run is noted at once.
	undone func(ctx context.Context, key record.Key) error
}

// undoResult is the result of undoing one thing.
type undoResult struct {
	Change steps.Change // what was to be done; in the end what still is, with its first action
	Left   string       // why it stays, or what of it
	Err    *steps.Error
}

// check finds what is to be done; find gives the undoing.
func (u *undoRun) check(ctx context.Context, e *steps.Env, key record.Key,
	find func() (steps.Undoing, error)) (r undoResult, undoing steps.Undoing) {
	ctx, cancel := withTimeout(ctx, checkTimeout, key)
	defer cancel()
	e.Undoes = u.undoes
	err := func() (err error) {
		defer recoverInto(&err)
		if undoing, err = find(); err != nil || undoing.Check == nil {
			return err
		}
		r.Change, r.Left, err = undoing.Check(ctx, u.x.host, e)
		return err
	}()
	if err != nil && ctx.Err() != nil {
		err = causeOr(ctx, err)
	}
	r.Err = steps.AsError(err)
	return r, undoing
}

// run undoes one thing.
func (u *undoRun) run(ctx context.Context, key record.Key, find func() (steps.Undoing, error)) undoResult {
	began := time.Now()
	e := u.x.env(u.node, key.String())
	r, undoing := u.check(ctx, e, key, find)
	action := r.Change.Action
	started := r.Err == nil && !r.Change.NoOp()
	if started {
		u.x.emit(event.StepStarted{Host: u.node, Step: key.String(), Kind: u.command, Action: string(action),
			Reason: r.Change.Reason})
		if err := u.apply(ctx, e, key, undoing); err != nil {
			r.Err = steps.AsError(err)
		} else {
			r, _ = u.check(ctx, e, key, func() (steps.Undoing, error) { return undoing, nil })
			if r.Err == nil && !r.Change.NoOp() {
				r.Err = steps.AsError(notConverged(steps.Spec{ID: key.String()}, r.Change))
			}
		}
		r.Change.Action = action
	}
	if r.Err == nil && r.Left == "" && u.undone != nil {
		r.Err = steps.AsError(u.undone(context.WithoutCancel(ctx), key))
	}
	if started || r.Err != nil {
		var err error
		if r.Err != nil {
			err = r.Err
		}
		done := event.StepDone{Host: u.node, Step: key.String(), Result: "changed", Action: string(action),
			Duration: time.Since(began)}
		u.x.emit(steps.Done(done, err))
	}
	return r
}

func (u *undoRun) apply(ctx context.Context, e *steps.Env, key record.Key, undoing steps.Undoing) (err error) {
	ctx, cancel := withTimeout(ctx, undoTimeout, key)
	defer cancel()
	err = func() (err error) {
		defer recoverInto(&err)
		return undoing.Apply(ctx, u.x.host, e)
	}()
	if err != nil && ctx.Err() != nil {
		err = causeOr(ctx, err)
	}
	return err
}

func withTimeout(ctx context.Context, bound time.Duration, key record.Key) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, bound, &steps.Error{Code: steps.CodeTimeout, Summary: "not done in time",
		Detail: fmt.Sprintf("%s took longer than %s", key, bound)})
}

package wire

import (
	"context"
	"errors"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
)

// Locker is the lock of a machine.
type Locker interface {
	Take(ctx context.Context, req steps.LockRequest) (steps.LockReply, error)
	Release() error
}

// RunLocked has the executor answer a call that changes the machine, with what the call asks for around that: an apply
// may take the lock first, and note the run and release the lock in the end; a note may release it.
func RunLocked(ctx context.Context, m Message, x *executor.Executor, l Locker) error {
	req, applies := m.Request().(*executor.Request)
	reply, replies := m.Reply().(*executor.ApplyReply)
	if !applies || !replies {
		err := m.Run(ctx, x)
		if n, ok := m.Request().(*executor.NoteRequest); ok && n.Release {
			err = errors.Join(err, l.Release())
		}
		return err
	}
	begin := time.Now()
	var taken *steps.LockReply
	if req.Lock != nil {
		r, err := l.Take(ctx, *req.Lock)
		if err != nil {
			return err
		}
		if r != (steps.LockReply{}) {
			reply.Lock = &r
			return nil
		}
		taken = &r
	}
	if err := m.Run(ctx, x); err != nil {
		return err
	}
	reply.Lock = taken
	if req.Note != nil && reply.Err == nil {
		reply.Noted = noteLast(ctx, x, l, *req.Note, reply.Changed, time.Since(begin))
	}
	return nil
}

// noteLast notes a run whose last steps are done, and releases the lock. Where it is false, the controller tries, and
// reports what is wrong.
func noteLast(ctx context.Context, x *executor.Executor, l Locker, n executor.RunNote, changed []string,
	took time.Duration) bool {
	n.Ended, n.Took = n.Ended.Add(took).Truncate(time.Second), n.Took+took
	n.Changed = append(slices.Clone(n.Changed), changed...)
	if len(n.Changed) > 0 && x.Note(ctx, n) != nil {
		return false
	}
	return l.Release() == nil
}

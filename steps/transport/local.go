package transport

import (
	"context"
	"errors"
	"sync"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
)

// NewLocal runs the steps of a node in this process, for `local` and `sandbox`
// connections. a must open Source.File itself: nothing is staged. Close closes
// nothing of h.
func NewLocal(h host.Host, a steps.Artifacts, node string) Conn {
	return newLocal(h, a, node)
}

// NewLocalLocked is NewLocal for a machine that can be locked; lockDir is a folder of
// the computer this process runs on.
func NewLocalLocked(h host.Host, a steps.Artifacts, node, lockDir string) Conn {
	l := newLocal(h, a, node)
	l.lock = hostlock.New(lockDir)
	return l
}

func newLocal(h host.Host, a steps.Artifacts, node string) *local {
	l := &local{node: node}
	l.exec = steps.NewExecutor(h, a, l.event)
	return l
}

type local struct {
	node string
	exec *steps.Executor
	lock *hostlock.Lock // nil: the machine has none

	mu   sync.Mutex
	emit func(event.Event) // nil but during Apply
}

func (l *local) event(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.emit != nil {
		l.emit(e)
	}
}

func (l *local) setEmit(f func(event.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emit = f
}

func (l *local) Check(ctx context.Context, req steps.Request) (steps.CheckReply, error) {
	return l.exec.Check(ctx, l.named(req))
}

func (l *local) Apply(ctx context.Context, req steps.Request, emit func(event.Event)) (steps.ApplyReply, error) {
	l.setEmit(emit)
	defer l.setEmit(nil)
	return l.exec.Apply(ctx, l.named(req))
}

func (l *local) named(req steps.Request) steps.Request {
	if req.Node == "" {
		req.Node = l.node
	}
	return req
}

func (l *local) TakeBack(ctx context.Context, req steps.TakeBackRequest, emit func(event.Event)) (steps.TakeBackReply, error) {
	l.setEmit(emit)
	defer l.setEmit(nil)
	return l.exec.TakeBack(ctx, req)
}

func (l *local) Verified(ctx context.Context) error { return l.exec.Verified(ctx) }

func (l *local) CheckLeave(ctx context.Context, req steps.LeaveRequest) (steps.LeaveReply, error) {
	return l.exec.CheckLeave(ctx, req)
}

func (l *local) Leave(ctx context.Context, req steps.LeaveRequest, emit func(event.Event)) (steps.LeaveReply, error) {
	l.setEmit(emit)
	defer l.setEmit(nil)
	return l.exec.Leave(ctx, req)
}

func (l *local) Forget(ctx context.Context, req steps.LeaveRequest) (steps.ForgetReply, error) {
	if err := l.Unlock(ctx); err != nil { // the folder that goes holds its file
		return steps.ForgetReply{}, err
	}
	return l.exec.Forget(ctx, req)
}

// Stage does nothing: the file is opened where it lies.
func (l *local) Stage(ctx context.Context, src steps.Source, progress func(done, total int64)) error {
	return context.Cause(ctx)
}

func (l *local) Lock(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	if l.lock == nil {
		return steps.LockReply{}, errors.New("this connection knows no lock")
	}
	reply, err := l.lock.Take(ctx, req)
	if err == nil && reply.By == nil {
		err = l.exec.Refresh(ctx)
	}
	return reply, err
}

func (l *local) Unlock(context.Context) error {
	if l.lock == nil {
		return nil
	}
	return l.lock.Release()
}

func (l *local) Note(ctx context.Context, n steps.RunNote) error { return l.exec.Note(ctx, n) }

func (l *local) Gather(ctx context.Context, req steps.GatherRequest) (steps.GatherReply, error) {
	return l.exec.Gather(ctx, req)
}

func (l *local) Examine(ctx context.Context, req steps.ExamineRequest) (steps.ExamineReply, error) {
	return l.exec.Examine(ctx, req)
}

func (l *local) Close() error { return l.Unlock(context.Background()) }

package transport

import (
	"context"
	"sync"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
)

// NewLocal runs the steps of a node in this process, for `local` and `sandbox`
// connections. a must open Source.File itself: nothing is staged. Close closes
// nothing of h.
func NewLocal(h host.Host, a steps.Artifacts, node string) Conn {
	l := &local{node: node}
	l.exec = steps.NewExecutor(h, a, l.event)
	return l
}

type local struct {
	node string
	exec *steps.Executor

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

func (l *local) CheckLeave(ctx context.Context, req steps.LeaveRequest) (steps.LeaveReply, error) {
	return l.exec.CheckLeave(ctx, req)
}

func (l *local) Leave(ctx context.Context, req steps.LeaveRequest, emit func(event.Event)) (steps.LeaveReply, error) {
	l.setEmit(emit)
	defer l.setEmit(nil)
	return l.exec.Leave(ctx, req)
}

func (l *local) Forget(ctx context.Context, req steps.LeaveRequest) (steps.ForgetReply, error) {
	return l.exec.Forget(ctx, req)
}

// Stage does nothing: the file is opened where it lies.
func (l *local) Stage(ctx context.Context, src steps.Source, progress func(done, total int64)) error {
	return context.Cause(ctx)
}

func (l *local) Close() error { return nil }

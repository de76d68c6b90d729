package transport

import (
	"context"
	"sync"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/wire"
)

// NewLocal runs steps in this process, for `local` and `sandbox` connections. a must open
// Source.File itself: nothing is staged. The machine is locked in lockDir, a folder of the
// computer that this process runs on. Close closes nothing of h.
func NewLocal(h host.Host, a steps.Artifacts, lockDir string) Conn {
	l := &local{lock: hostlock.New(lockDir)}
	l.exec = executor.NewExecutor(kinds.Catalog(), h, a, l.event)
	return l
}

type local struct {
	exec *executor.Executor
	lock *hostlock.Lock

	mu   sync.Mutex
	emit func(event.Event) // nil except during a call that has one
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

func (l *local) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	l.setEmit(emit)
	defer l.setEmit(nil)
	return wire.RunLocked(ctx, m, l.exec, localLock{l})
}

// localLock is the lock of a machine in this process.
type localLock struct{ *local }

func (l localLock) Take(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	return l.Lock(ctx, req)
}

func (l localLock) Release() error { return l.lock.Release() }

func (l *local) Forget(ctx context.Context, req executor.LeaveRequest) (executor.ForgetReply, error) {
	if err := l.Unlock(ctx); err != nil { // the folder to be removed holds its file
		return executor.ForgetReply{}, err
	}
	return l.exec.Forget(ctx, req)
}

// Stage does nothing: the file is opened where it is.
func (l *local) Stage(ctx context.Context, _ *Content, progress func(done, total int64)) error {
	return context.Cause(ctx)
}

func (l *local) Lock(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	reply, err := l.lock.Take(ctx, req)
	if err == nil && reply.By == nil {
		err = l.exec.Refresh(ctx)
	}
	return reply, err
}

func (l *local) Address(f host.Facts) string { return f.ManagementIP }

func (l *local) Unlock(context.Context) error { return l.lock.Release() }

func (l *local) Close() error { return l.Unlock(context.Background()) }

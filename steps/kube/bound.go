package kube

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bound returns a context that ends after limit, without the time that its requests wait in the queue of the client
// that sends them (Queue): many hosts that end at once do not make each other's requests end. Its error is then
// context.DeadlineExceeded.
func Bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	b := &bound{Context: inner, left: limit, since: time.Now()}
	b.ends = time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	return b, func() {
		cancel(context.Canceled)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ends.Stop()
	}
}

type bound struct {
	context.Context
	mu     sync.Mutex
	ends   *time.Timer
	left   time.Duration // when the clock last started
	since  time.Time     // ... and when that was
	queued int           // requests that wait; with any the clock stands
}

type boundKey struct{}

func (b *bound) Value(key any) any {
	if key == (boundKey{}) {
		return b
	}
	return b.Context.Value(key)
}

func (b *bound) Err() error {
	err := b.Context.Err()
	if err != nil && errors.Is(context.Cause(b.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// Queue says that a request of ctx waits in a queue until sent is called.
func Queue(ctx context.Context) (sent func()) {
	b, ok := ctx.Value(boundKey{}).(*bound)
	if !ok {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queued++; b.queued == 1 && b.ends.Stop() {
		b.left -= time.Since(b.since)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.queued--; b.queued == 0 && b.Err() == nil {
			b.since = time.Now()
			b.ends.Reset(max(0, b.left))
		}
	}
}

package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps/kube"
)

// TestLimiter: the first requests are sent at once, and in no second more than the bound; who does not wait any more
// takes no turn from others, and ends with its deadline, not with an error of the limiter.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 5 * mostPerSecond
		l := newLimiter()
		var mu sync.Mutex
		var sent []time.Duration
		start := time.Now()
		var all sync.WaitGroup
		for i := range 2 * requests {
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 1 { // half of them give up while they wait
				ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Microsecond)
			}
			all.Go(func() {
				defer cancel()
				err := l.Wait(ctx)
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, time.Since(start))
			})
		}
		all.Wait()
		if len(sent) < requests || sent[mostPerSecond-1] > 0 {
			t.Errorf("%d of %d requests were sent; the first ones at %v", len(sent), requests, sent[:mostPerSecond])
		}
		for i := range sent {
			if i >= mostPerSecond && sent[i]-sent[i-mostPerSecond] < time.Second {
				t.Errorf("request %d is sent at %v, request %d at %v", i, sent[i], i-mostPerSecond, sent[i-mostPerSecond])
			}
		}
		if last, most := sent[len(sent)-1], time.Duration(len(sent)/mostPerSecond)*time.Second; last > most {
			t.Errorf("the last of %d is sent at %v, later than %v", len(sent), last, most)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range mostPerSecond {
			if err := l.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := l.Wait(ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestBoundsBeginAfterTheQueue: what many hosts send at once, each with a bound, is sent and answered, however long it
// waits for its turn; a request without an answer ends with its bound.
func TestBoundsBeginAfterTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 10 * mostPerSecond
		l := newLimiter()
		var all sync.WaitGroup
		for range hosts {
			all.Go(func() {
				ctx, cancel := kube.Bound(t.Context(), time.Second)
				defer cancel()
				for range 2 { // as a Lease is read and deleted
					if err := l.Wait(ctx); err != nil {
						t.Errorf("%v in the queue", err)
						return
					}
					select {
					case <-time.After(400 * time.Millisecond): // until the answer
					case <-ctx.Done():
						t.Errorf("%v before the answer", ctx.Err())
						return
					}
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second) // until the next is sent at once
		start := time.Now()
		ctx, cancel := kube.Bound(t.Context(), time.Second)
		defer cancel()
		time.Sleep(300 * time.Millisecond) // of its bound
		if err := l.Wait(ctx); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		if took := time.Since(start); took != time.Second || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("a request without an answer ended after %v: %v", took, ctx.Err())
		}
	})
}

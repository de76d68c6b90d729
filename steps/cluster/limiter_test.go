package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// TestLimiter: a request that gets no turn before its deadline ends with the deadline, not with an error of the
// limiter.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter{flowcontrol.NewTokenBucketRateLimiter(1, 1)}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		for range 2 { // at once, and after a second
			if err := l.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
			t.Errorf("%v; the context: %v", err, ctx.Err())
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Wait(ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

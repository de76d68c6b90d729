package cluster

import (
	"context"

	"k8s.io/client-go/util/flowcontrol"
)

// limiter bounds the rate of a client's requests. A wait for it ends with its context. That of client-go ends earlier
// where no request is possible before the deadline, or the deadline has just passed, with an error of its own: callers
// would not see that their time is over.
type limiter struct{ flowcontrol.RateLimiter }

// newLimiter returns the limiter of a client: many nodes are joined over one.
func newLimiter() limiter {
	const perSecond, burst = 100, 200
	return limiter{flowcontrol.NewTokenBucketRateLimiter(perSecond, burst)}
}

// Wait returns nil once a request may be sent.
func (l limiter) Wait(ctx context.Context) error {
	err := l.RateLimiter.Wait(ctx)
	if _, bounded := ctx.Deadline(); err == nil || !bounded {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"nodejoin/steps/kube"
)

// mostPerSecond is how many requests a client sends in any second: a run over many nodes is one client of the API
// server among others.
const mostPerSecond = 20

// limiter bounds the requests of a client. Those of a run over few nodes are not delayed, as a token bucket of the
// same bound would do: it has to be smaller by what it lets through at once. A wait ends with its context and takes no
// turn then; the first to wait is the first to get one.
type limiter struct {
	flowcontrol.RateLimiter // its other methods, which client-go does not call

	turn chan struct{}
	sent [mostPerSecond]time.Time // when the last ones were sent, a ring
	next int
}

func newLimiter() *limiter {
	return &limiter{RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter(), turn: make(chan struct{}, 1)}
}

// Wait returns nil once a request may be sent. A bound of the request begins then (kube.Bound).
func (l *limiter) Wait(ctx context.Context) error {
	defer kube.Queue(ctx)()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	if err := ctx.Err(); err != nil {
		return err
	}
	if wait := time.Until(l.sent[l.next].Add(time.Second)); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.sent[l.next] = time.Now()
	l.next = (l.next + 1) % len(l.sent)
	return nil
}

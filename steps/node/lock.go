package node

import (
	"context"
	"fmt"
	"os"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/hostlock"
)

// tryLock takes the lock, or returns the other run that still holds it after the wait.
func (g *guard) tryLock(ctx context.Context, lock *hostlock.Lock, waits time.Duration) (*steps.LockHolder, error) {
	now := time.Now().UTC()
	by := steps.LockHolder{Run: fmt.Sprintf("node-%s-%d", now.Format("20060102-150405.000"), os.Getpid()),
		User: "the service of nodejoin", Host: g.facts.Hostname,
		PID: os.Getpid(), Since: now.Truncate(time.Second), Command: steps.BootCommand}
	reply, err := lock.Take(ctx, steps.LockRequest{Holder: by, Wait: waits})
	if err != nil {
		return nil, err
	}
	if reply.Left != nil {
		g.Log("an earlier run did not end: " + reply.Left.String())
	}
	if reply.By != nil {
		g.Log("waiting for another run: " + reply.By.String())
	}
	return reply.By, nil
}

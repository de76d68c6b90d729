package node

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/wait"
)

// follow starts rounds until ctx ends, the first one at a random time, so that nodes that start together do not ask
// together. A round that goes on then goes on by itself: the next process leaves it alone, as it holds its lock.
func (g *guard) follow(ctx context.Context, f steps.Follow) {
	said := ""
	first := rand.N(f.Interval) //nolint:gosec // it spreads load, and keeps no secret
	for pause := first; wait.Pause(ctx, pause) == nil; pause = f.Interval {
		text := "follow: all is well again"
		if err := g.followRound(ctx, f); err != nil {
			text = "follow: " + err.Error() + "; see " + f.Log
		} else if said == "" {
			continue
		}
		if ctx.Err() == nil && text != said {
			g.Log(text)
			said = text
		}
	}
}

// followRound starts a round, unless the node is paused, and waits for its end.
func (g *guard) followRound(ctx context.Context, f steps.Follow) error {
	paused, err := executor.Paused(ctx, g.Host, g.facts)
	if err != nil || paused.Holds(time.Now()) {
		return err
	}
	ended, err := g.Starts(f)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the program " + f.Program + " is not there")
	}
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

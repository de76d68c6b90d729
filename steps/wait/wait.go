// Package wait pauses, and asks for something again and again until it is so. Every wait
// ends with its context, which the caller bounds.
package wait

import (
	"context"
	"time"
)

// first is the pause after the first look, unless the caller wants shorter ones.
const first = 50 * time.Millisecond

// Until calls look until it is done or fails, or ctx ends; it is called at least once.
// The pauses between two looks grow up to most. The error of an ended ctx is its cause.
func Until(ctx context.Context, most time.Duration, look func() (done bool, err error)) error {
	for pause := min(first, most); ; pause = min(pause*3/2, most) {
		done, err := look()
		if done || err != nil {
			return err
		}
		if err := Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// Pause waits for d; when ctx ends before, it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

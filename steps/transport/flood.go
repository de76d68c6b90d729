package transport

import (
	"fmt"
	"time"
)

// flood counts what the agent says besides replies: a machine that talks without end takes time of the
// controller, and room on its screen.
type flood struct {
	since time.Time
	n     int
}

// Bounds of a flood: this many messages in this time.
const (
	floodTime = 10 * time.Second
	floodMost = 5_000
)

func (f *flood) one(now time.Time) error {
	if now.Sub(f.since) > floodTime {
		f.since, f.n = now, 0
	}
	if f.n++; f.n > floodMost {
		return fmt.Errorf("%w: more than %d messages in %s", errAnswer, floodMost, floodTime)
	}
	return nil
}

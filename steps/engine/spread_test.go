package engine

import (
	"testing"
	"time"
)

// TestSpread: those who wait for the same thing do not ask for it at the same time, and not later than they would.
func TestSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		d := spread(time.Minute)
		if d < 30*time.Second || d > time.Minute {
			t.Errorf("%v", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("of 100 pauses %d differ", len(seen))
	}
}

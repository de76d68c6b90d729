package thrift

import (
	"runtime/debug"
	"testing"
)

// TestThrift: what was set before comes back, and GOGC takes precedence.
func TestThrift(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	want := func(want int) {
		t.Helper()
		if have := percent(); have != want {
			t.Errorf("%d, want %d", have, want)
		}
	}
	Off()()
	want(70)
	On()
	want(50)
	on := Off()
	want(100)
	on()
	want(50)
	debug.SetGCPercent(70)
	t.Setenv("GOGC", "70")
	On()
	want(70)
	Off()()
	want(70)
}

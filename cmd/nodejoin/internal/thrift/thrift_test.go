package thrift

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestThrift: there is more garbage before the first collection, and while somebody is in a hurry. GOGC takes
// precedence.
func TestThrift(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() int {
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(now)
		return int(now[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	want := func(want int) {
		t.Helper()
		if have := percent(); have != want {
			t.Errorf("%d, want %d", have, want)
		}
	}
	On()
	want(first)
	on := Off()
	want(first)
	runtime.GC()
	for end := time.Now().Add(10 * time.Second); percent() == first && time.Now().Before(end); {
		runtime.Gosched() // until the cleanup has run
	}
	want(hurried)
	other := Off()
	on()
	want(hurried)
	other()
	want(usual)
	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	On()
	want(70)
	Off()()
	want(70)
}

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestCollectLater: before the first collection the heap may grow more, after it as ever.
func TestCollectLater(t *testing.T) {
	t.Setenv("GOGC", "")
	now := func() int {
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(percent)
		return int(percent[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	collectLater()
	if have := now(); have != firstAt {
		t.Fatalf("%d %%, want %d", have, firstAt)
	}
	runtime.GC()
	for end := time.Now().Add(10 * time.Second); now() != 100; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d %% after a collection, want 100", now())
		}
	}
	t.Setenv("GOGC", "50")
	if collectLater(); now() != 100 {
		t.Errorf("%d %%, want that of GOGC", now())
	}
}

package engine

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlots: no more hosts than allowed are worked on at once, and more as soon as they may be.
func TestSlots(t *testing.T) {
	for _, c := range []struct {
		most int // to which it may grow
		want time.Duration
		peak int
	}{
		{3, 20 * time.Second, 3},  // 60 hosts of a second each
		{60, 7 * time.Second, 16}, // 3, 6, 12, 24 hosts at once and so on; the last ones wait for nobody
	} {
		synctest.Test(t, func(t *testing.T) {
			now, peak := 3, 0
			busy := 0
			var mu sync.Mutex
			s := newSlots(3, func() bool {
				if now >= c.most {
					return false
				}
				now++
				return true
			})
			start := time.Now()
			var wait sync.WaitGroup
			for range 60 {
				s.take()
				wait.Go(func() {
					mu.Lock()
					busy++
					peak = max(peak, busy)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					busy--
					mu.Unlock()
					s.give()
				})
			}
			wait.Wait()
			if took := time.Since(start); took > c.want || peak < c.peak || peak > c.most {
				t.Errorf("up to %d: %v, %d at once", c.most, took, peak)
			}
		})
	}
}

// TestSlotsOfSlowHosts: if all that began are slow, more may begin before one of them is done.
func TestSlotsOfSlowHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(10, func() bool { return true })
		start := time.Now()
		var last time.Duration
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := range 100 {
			s.take()
			wait.Go(func() {
				defer s.give()
				if i < 10 {
					time.Sleep(time.Hour)
					return
				}
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				last = time.Since(start)
			})
		}
		wait.Wait()
		if last > 15*time.Second {
			t.Errorf("the last of the others was done after %v", last)
		}
	})
}

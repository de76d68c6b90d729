package atonce

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMost: open files and memory bound the choice, but not below the first number.
func TestMost(t *testing.T) {
	for _, c := range []struct {
		open, left uint64
		want       int
		why        string
	}{
		{0, 0, 256, "any distance"},
		{1 << 20, 64 << 30, 256, "any distance"},
		{1024, 64 << 30, 231, "1024 open files"},
		{256, 64 << 30, 39, "256 open files"},
		{64, 64 << 30, First, "64 open files"},
		{1024, 512 << 20, 64, "512 MiB"},
		{1024, 1 << 20, First, "1 MiB"},
	} {
		if n, why := most(c.open, c.left); n != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%d files, %d bytes: %d (%s), want %d (%s)", c.open, c.left, n, why, c.want, c.why)
		}
	}
}

// TestMore: it grows while processors are idle, up to the most, and not while they work.
func TestMore(t *testing.T) {
	var now time.Time
	var cpu time.Duration
	c := &Choice{now: First, most: First + 2, cpu: func() time.Duration { return cpu },
		clock: func() time.Time { return now }}
	if c.Counted() {
		t.Error("no host was done yet")
	}
	step := func(load float64) bool {
		now = now.Add(2 * time.Second)
		cpu += time.Duration(load * float64(2*time.Second) * float64(runtime.NumCPU()))
		return c.More()
	}
	for i, s := range []struct {
		load float64
		want bool
	}{{0.9, false}, {0.3, true}, {1, false}, {0.7, true}, {0.1, false}} {
		if got := step(s.load); got != s.want || !c.Counted() { // also where it has not grown
			t.Errorf("%d, load %.1f: %v, %v", i, s.load, got, c.Counted())
		}
	}
	if c.now != First+2 {
		t.Error(c)
	}
}

// TestHere: this computer's own figures can be had.
func TestHere(t *testing.T) {
	c := New()
	if c.most < First || c.cpu() <= 0 || runtime.GOOS == "linux" && (openFiles() == 0 || memoryLeft() == 0) {
		t.Errorf("%v, %v, %d files, %d bytes", c, c.cpu(), openFiles(), memoryLeft())
	}
}

//go:build linux

package main

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestChaosEarlySignal: SIGTERM may kill a run before it listens for signals. Later the run must have an exit code.
func TestChaosEarlySignal(t *testing.T) {
	c := newChaos(t)
	f := &chaosFleet{chaos: c, name: "steps", boxes: 1, rnd: rand.New(rand.NewPCG(1, 1))}
	f.prepare()
	f.write(nil)
	o := f.start(func(p *controller, _ <-chan struct{}) { _ = p.Signal(syscall.SIGTERM) }, f.apply()...)
	if o.code != -1 || !o.early {
		t.Errorf("a signal before main: exit code %d, early %v", o.code, o.early)
	}
	f.judge(o, false)
	o = f.start(func(p *controller, ended <-chan struct{}) {
		after(500*time.Millisecond, ended)
		_ = p.Signal(syscall.SIGTERM)
	}, "version")
	if o.early {
		t.Error("a signal after main began counts as early")
	}
}

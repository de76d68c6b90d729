package engine_test

import (
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/hostlock"
)

// TestPauseBesideRun: an operator pauses a machine on which a run is at work, and reads who that is. The pause ends
// beside it, too. Neither takes the lock from the run.
func TestPauseBesideRun(t *testing.T) {
	w := newWorld(t)
	w.one = true
	if _, sum := w.apply(-1); sum.Hosts[0].Err != nil {
		t.Fatal(sum.Hosts[0].Err)
	}
	box, _ := w.box()
	lock := hostlock.New(box.LockDir())
	at := steps.LockHolder{Run: "another", Command: "apply", User: "bob", Host: "ctl-2", PID: 1, Since: time.Now()}
	if _, err := lock.Take(t.Context(), steps.LockRequest{Holder: at}); err != nil {
		t.Fatal(err)
	}
	w.holder = steps.LockHolder{Run: "mine", Command: "pause", Since: time.Now()}
	pause := func(p *steps.GuardPause) error {
		s := w.session(w.compile())
		defer s.Close()
		return s.Pause(t.Context(), p)[0].Err
	}
	w.events = nil
	if err := pause(&steps.GuardPause{By: "alice@ctl-1", Since: time.Now()}); err != nil {
		t.Error(err)
	}
	warned := false
	for _, e := range w.events {
		if e, ok := e.(event.Warning); ok && e.Summary == "a run is at work on the machine" {
			warned = true
		}
	}
	if !warned {
		t.Errorf("nobody is told of the run: %+v", w.events)
	}
	paused := func() bool {
		s := w.session(w.compile())
		defer s.Close()
		return s.Check(t.Context()).Hosts[0].Paused != nil
	}
	if !paused() {
		t.Error("the machine is not paused")
	}
	if err := pause(nil); err != nil || paused() {
		t.Errorf("the pause does not end beside a run: %v", err)
	}
	reply, err := hostlock.New(box.LockDir()).Take(t.Context(), steps.LockRequest{Holder: w.holder})
	if err != nil || reply.By == nil || reply.By.Run != "another" {
		t.Errorf("the run has lost its lock: %+v, %v", reply, err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

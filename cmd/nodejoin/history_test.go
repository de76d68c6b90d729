package main

import (
	"os"
	"testing"
	"time"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/plan"
	"nodejoin/steps/event"
)

// The changes of a killed run are counted from its events.
func TestChangedByAKilledRun(t *testing.T) {
	var r history.Run
	for _, e := range []event.Event{
		event.StepStarted{Host: "win-1", Step: "a"}, event.StepDone{Host: "win-1", Step: "a", Result: "changed"},
		event.StepDone{Host: "win-1", Step: "b", Result: "unchanged"},
		event.StepDone{Host: "win-2", Step: "a", Result: "changed"},
		event.StepDone{Host: "win-2", Step: "b", Result: "failed"},
	} {
		b, err := event.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		r.Events = append(r.Events, history.Entry{Event: b})
	}
	if n := changedBy(r); n != 2 {
		t.Errorf("have %d changes, want 2", n)
	}
	r.End = &history.End{Hosts: []history.Host{{Node: "win-1", Changed: []string{"a"}}}}
	if n := changedBy(r); n != 1 {
		t.Errorf("with an end: have %d changes, want 1", n)
	}
}

// The exit code gives the result of a run. A run that stops for a reboot has not failed.
func TestRunResult(t *testing.T) {
	for code, want := range map[int]string{exitOK: "done", exitFailed: "failed", exitReboot: "reboot pending",
		exitInterrupted: "interrupted", exitUnreachable: "failed"} {
		if have := runResult(history.Run{End: &history.End{ExitCode: code}}); have != want {
			t.Errorf("exit code %d is %q, want %q", code, have, want)
		}
	}
}

// TestRunNames: run names sort by time, and history accepts them.
func TestRunNames(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	last := ""
	for ms := range 1000 {
		name := holder.RunName(now.Add(time.Duration(ms) * time.Millisecond))
		if name <= last || !history.IsRun(name) {
			t.Fatalf("%s after %s", name, last)
		}
		last = name
	}
}

// TestRunNotedElsewhere: a run that has a folder for its record leaves none where runs are recorded.
func TestRunNotedElsewhere(t *testing.T) {
	state, notes := t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	a := &app{notes: notes, holder: holder.New("apply")}
	if err := a.record([]string{t.TempDir()}, &plan.Compiled{}); err != nil {
		t.Fatal(err)
	}
	if err := a.run.Finish(history.End{}); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{notes: 1, state: 0} {
		if list, err := os.ReadDir(dir); err != nil || len(list) != want {
			t.Errorf("%s has %v, want %d: %v", dir, list, want, err)
		}
	}
}

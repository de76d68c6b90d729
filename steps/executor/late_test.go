package executor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// TestRecordBeforeChanges: the end of a step is saved with the claims of the next one, before anything else changes,
// before a wait, and at the end.
func TestRecordBeforeChanges(t *testing.T) {
	h := stepstest.OpenHost(t, "linux")
	facts, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	var list []steps.Spec
	path := func(i int) string { return fmt.Sprintf("/srv/file%d", i) }
	for i := range 4 {
		list = append(list, stepstest.Spec("file", fmt.Sprint("f", i), kinds.File{Path: path(i), Content: "x"}))
	}
	list = slices.Insert(list, 2, stepstest.Spec("file_ready", "wait", kinds.FileReady{Path: path(1)}))

	// ended reports whether the record on the disk has the end of the step that makes a file.
	ended := func(path string) bool {
		c, ok := stepstest.LoadRecord(t, h).Lookup(record.File.Of(path))
		return ok && c.State != ""
	}
	saves, waited := 0, false
	x := executor.NewExecutor(kinds.Catalog(), host.Around(h, func(_, subject string, call func() error) error {
		if subject == record.Path(facts) {
			saves++
			return call()
		}
		for i := range 4 {
			if path(i) == subject {
				if _, ok := stepstest.LoadRecord(t, h).Lookup(record.File.Of(subject)); !ok || ended(subject) {
					t.Errorf("%s is made, and the record does not claim it", subject)
				}
				break
			}
			if !ended(path(i)) {
				t.Errorf("%s is made before the record has the end of the step for %s", subject, path(i))
			}
		}
		return call()
	}), nil, func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Step == "wait" {
			waited = true
			if !ended(path(1)) {
				t.Error("the run waits before the record has the end of the step before")
			}
		}
	})
	reply, err := x.Apply(t.Context(), executor.Request{Node: "n", Steps: list})
	if err != nil || reply.Err != nil || len(reply.Changed) != 4 {
		t.Fatalf("%+v, %v", reply, err)
	}
	for i := range 4 {
		if !ended(path(i)) {
			t.Errorf("after the run the record lacks the end of the step for %s", path(i))
		}
	}
	// One for each claim, one before the wait and one at the end.
	if saves != 6 || !waited {
		t.Errorf("the record was saved %d times (the run waited: %v), want 6", saves, waited)
	}
}

// TestRecordNotSaved: a step whose end cannot be saved has failed; so has one before which that is noticed.
func TestRecordNotSaved(t *testing.T) {
	full := errors.New("no room")
	for fails, want := range map[int]string{1: "a", 2: "b", 3: "b"} {
		h := stepstest.OpenHost(t, "linux")
		facts, err := h.Facts(t.Context())
		stepstest.Must(t, err)
		saves := 0
		x := executor.NewExecutor(kinds.Catalog(), host.Around(h, func(_, subject string, call func() error) error {
			if subject == record.Path(facts) {
				if saves++; saves >= fails {
					return full
				}
			}
			return call()
		}), nil, func(event.Event) {})
		reply, err := x.Apply(t.Context(), executor.Request{Node: "n", Steps: []steps.Spec{
			stepstest.Spec("file", "a", kinds.File{Path: "/srv/a", Content: "x"}),
			stepstest.Spec("file", "b", kinds.File{Path: "/srv/b", Content: "x"})}})
		if err != nil || reply.Failed != want || reply.Err == nil || !strings.Contains(reply.Err.Error(), full.Error()) {
			t.Errorf("save %d fails: %+v, %v; want that %s fails", fails, reply, err, want)
		}
		if _, err := h.Stat(t.Context(), "/srv/b"); (err == nil) != (fails == 3) {
			t.Errorf("save %d fails, and /srv/b: %v", fails, err)
		}
	}
}

// TestRollbackWithoutRoom: where the record cannot be saved, the rollback of the failed run still removes what the run
// has made.
func TestRollbackWithoutRoom(t *testing.T) {
	full := errors.New("no room")
	h := stepstest.OpenHost(t, "linux")
	facts, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	saves := 0
	x := executor.NewExecutor(kinds.Catalog(), host.Around(h, func(_, subject string, call func() error) error {
		if subject == record.Path(facts) {
			if saves++; saves >= 2 {
				return full
			}
		}
		return call()
	}), nil, func(event.Event) {})
	reply, err := x.Apply(t.Context(), executor.Request{Node: "n", Snapshot: &executor.NodeBefore{}, Steps: []steps.Spec{
		stepstest.Spec("file", "a", kinds.File{Path: "/srv/a", Content: "x"})}})
	if err != nil || reply.Failed != "a" {
		t.Fatalf("%+v, %v; want that the step fails", reply, err)
	}
	_, err = x.Rollback(t.Context(), executor.RollbackRequest{Node: "n"})
	if _, there := h.Stat(t.Context(), "/srv/a"); !errors.Is(there, fs.ErrNotExist) {
		t.Errorf("after the rollback /srv/a: %v (rollback: %v)", there, err)
	}
}

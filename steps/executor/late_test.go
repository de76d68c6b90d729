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
// before a wait, and at the end. The members of an archive are claimed together.
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
	tgz := stepstest.Tarball(t, "file4", "x", "file5", "x", "bin/file6", "x")
	list = append(list, stepstest.Spec("archive", "a", kinds.Archive{To: "/srv/a",
		Source: steps.Source{URL: "http://m/a.tgz", SHA256: stepstest.Hex256(tgz)}}))
	const members = 5 // with their folders

	// claimed counts the members that are there, each of which the record on the disk claims.
	claimed := func() (n int) {
		rec := stepstest.LoadRecord(t, h)
		for _, p := range []string{"/srv/a", "/srv/a/bin", "/srv/a/file4", "/srv/a/file5", "/srv/a/bin/file6"} {
			_, file := rec.Lookup(record.File.Of(p))
			_, dir := rec.Lookup(record.Directory.Of(p))
			there, err := host.Exists(t.Context(), h, p)
			if stepstest.Must(t, err); there && !file && !dir {
				t.Errorf("%s is there, and the record does not claim it", p)
			}
			if there {
				n++
			}
		}
		return n
	}
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
		defer claimed()
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
	}), stepstest.Memory{"http://m/a.tgz": tgz}, func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Step == "wait" {
			waited = true
			if !ended(path(1)) {
				t.Error("the run waits before the record has the end of the step before")
			}
		}
	})
	reply, err := x.Apply(t.Context(), executor.Request{Node: "n", Steps: list})
	if err != nil || reply.Err != nil || len(reply.Changed) != 5 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if n := claimed(); n != members {
		t.Errorf("%d members are there, want %d", n, members)
	}
	for i := range 4 {
		if !ended(path(i)) {
			t.Errorf("after the run the record lacks the end of the step for %s", path(i))
		}
	}
	// One for the claims of each step, one before the wait and one at the end.
	if saves != 7 || !waited {
		t.Errorf("the record was saved %d times (the run waited: %v), want 7", saves, waited)
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

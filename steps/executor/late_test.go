package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	synced := &syncs{Host: h}
	x := executor.NewExecutor(kinds.Catalog(), host.Around(synced, func(_, subject string, call func() error) error {
		if subject == record.Path(facts) {
			saves++
			return call()
		}
		defer claimed()
		for i := range 4 {
			_, claimed := stepstest.LoadRecord(t, h).Lookup(record.File.Of(path(i)))
			there, err := host.Exists(t.Context(), h, path(i))
			if err != nil || (there || path(i) == subject) && !claimed {
				t.Errorf("%s is made, and the record does not claim %s: %v", subject, path(i), err)
			}
			if strings.HasPrefix(subject, "/srv/a/") && !ended(path(i)) {
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
	for key, c := range stepstest.LoadRecord(t, h).Claims {
		if c.Step == "" {
			t.Errorf("the claim of %s names no step", key)
		}
	}
	// One for the claims of files that come one after the other, one for those of the archive, one before the wait and
	// one at the end.
	if saves != 5 || !waited {
		t.Errorf("the record was saved %d times (the run waited: %v), want 5", saves, waited)
	}
	if want := []string{"/srv/a/bin/file6", "/srv/a/file5"}; !slices.Equal(synced.folders, want) {
		t.Errorf("the folders of the archive are written to the disk after %v, want %v", synced.folders, want)
	}
}

// syncs is a machine that lists the files of the archive after which their folder is written to the disk.
type syncs struct {
	host.Host
	folders []string
}

func (s *syncs) WriteFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	if strings.HasPrefix(path, "/srv/a/") && !opt.Followed {
		s.folders = append(s.folders, path)
	}
	return s.Host.WriteFile(ctx, path, r, opt)
}

// TestRecordNotSaved: a step whose end cannot be saved has failed; so has one before which that is noticed.
func TestRecordNotSaved(t *testing.T) {
	full := errors.New("no room")
	for fails, want := range map[int]string{1: "a", 2: "b", 3: "b"} {
		h := stepstest.OpenHost(t, "linux")
		facts, err := h.Facts(t.Context())
		stepstest.Must(t, err)
		stepstest.Put(t, h, "/srv/b", "earlier") // so that it is not claimed ahead
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
		if have := stepstest.Text(t, h, "/srv/b"); (have == "x") != (fails == 3) {
			t.Errorf("save %d fails, and /srv/b holds %q", fails, have)
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

// TestClaimsAhead: a run that fails or is killed before any of its calls is completed by the next. A file and a folder
// that somebody has made before their steps come, between the runs or during the next one, are theirs: leave restores
// them, and removes all else.
func TestClaimsAhead(t *testing.T) {
	stopped := errors.New("stopped")
	list := []steps.Spec{
		stepstest.Spec("directory", "dir", kinds.Directory{Path: "/srv/d/e"}),
		stepstest.Spec("file", "a", kinds.File{Path: "/srv/d/e/a", Content: "x"}),
		stepstest.Spec("file", "b", kinds.File{Path: "/srv/f/b", Content: "x"}),
		stepstest.Spec("file", "c", kinds.File{Path: "/srv/f/c", Content: "x"}),
		stepstest.Spec("directory", "g", kinds.Directory{Path: "/srv/g", Access: host.AccessPrivate})}
	const last, folder = "/srv/f/c", "/srv/g"
	type around = func(op, subject string, call func() error) error
	machine := func(h host.Host, f around) *executor.Executor {
		return executor.NewExecutor(kinds.Catalog(), host.Around(h, f), nil, func(event.Event) {})
	}
	request := executor.Request{Node: "n", Plan: "p", Steps: list, Snapshot: &executor.NodeBefore{}}
	for stop, done := 0, false; !done; stop++ {
		for mode := range 4 {
			kill, between := mode%2 == 1, mode/2 == 1
			h, theirs, text, calls := stepstest.OpenHost(t, "linux"), false, "", 0
			if kill { // a run has made and removed the folder before
				facts, err := h.Facts(t.Context())
				stepstest.Must(t, err)
				rec := stepstest.LoadRecord(t, h)
				rec.Claims[record.Directory.Of("/srv/d")] = record.Claim{Step: "old", Seq: 1, Undone: true}
				stepstest.Must(t, rec.Save(t.Context(), h, facts))
			}
			reply, err := machine(h, func(_, _ string, call func() error) error {
				if calls++; calls > stop && (kill || calls == stop+1) {
					return stopped
				}
				return call()
			}).Apply(t.Context(), request)
			stepstest.Must(t, err)
			done = reply.Err == nil
			there, err := host.Exists(t.Context(), h, last)
			stepstest.Must(t, err)
			if _, claimed := stepstest.LoadRecord(t, h).Lookup(record.File.Of(last)); claimed != there && !kill {
				t.Errorf("the run failed at call %d: %s is there: %v, claimed: %v", stop+1, last, there, claimed)
			}
			put := func() {
				if !there {
					earlier, err := host.Exists(t.Context(), h, "/srv/f/b")
					stepstest.Must(t, err)
					if text = "theirs"; !earlier && stop%2 == 0 {
						text = "x"
					}
					stepstest.Put(t, h, last, text)
					stepstest.Must(t, h.Mkdir(t.Context(), folder, host.AccessDefault))
					there, theirs = true, true
				}
			}
			if between {
				put()
			}
			reply, err = machine(h, func(_, subject string, call func() error) error {
				if subject == "/srv/f/b" {
					put() // while the run is at the step before
				}
				return call()
			}).Apply(t.Context(), request)
			if err != nil || reply.Err != nil || stepstest.Text(t, h, last) != "x" {
				t.Fatalf("call %d (killed: %v): %+v, %v", stop+1, kill, reply, err)
			}
			left, err := machine(h, func(_, _ string, call func() error) error { return call() }).Leave(t.Context(),
				executor.LeaveRequest{Node: "n"})
			if err != nil || left.Err != nil {
				t.Fatalf("call %d (killed: %v): leave: %+v, %v", stop+1, kill, left, err)
			}
			if theirs {
				fi, err := h.Stat(t.Context(), folder)
				if stepstest.Text(t, h, last) != text || err != nil || fi.Access != host.AccessDefault {
					t.Errorf("call %d (killed: %v, put between: %v): leave did not restore %s and %s: %+v, %v",
						stop+1, kill, between, last, folder, fi, err)
				}
			}
			for _, p := range []string{"/srv/d", "/srv/f/b", last, folder} {
				own := !theirs || p != last && p != folder
				if there, err := host.Exists(t.Context(), h, p); err != nil || there && own {
					t.Errorf("call %d (killed: %v, put between: %v): leave has left %s: %v",
						stop+1, kill, between, p, err)
				}
			}
		}
	}
}

package transport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// calls counts the calls that a run makes to a machine.
type calls struct {
	transport.Conn
	made *[]string
	lose *int // replies to applies that are lost, with the connection
}

func (c calls) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	*c.made = append(*c.made, m.Method())
	err := c.Conn.Do(ctx, m, emit)
	if m.Method() == "apply" && *c.lose > 0 {
		*c.lose--
		_ = c.Close()
		return fmt.Errorf("%w: by the test", transport.ErrDropped)
	}
	return err
}

func (c calls) Lock(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	*c.made = append(*c.made, "lock")
	return c.Conn.Lock(ctx, req)
}

func (c calls) Unlock(ctx context.Context) error {
	*c.made = append(*c.made, "unlock")
	return c.Conn.Unlock(ctx)
}

// TestCallsOfARun: a first run makes two calls to a machine, a check and an apply. The apply takes the lock before it
// changes anything, notes the run, and releases the lock.
func TestCallsOfARun(t *testing.T) {
	holder := func(run string) steps.LockHolder {
		return steps.LockHolder{Run: run, User: "alice", Host: "ctl", PID: 7, Since: time.Unix(1e9, 0).UTC(),
			Command: "apply"}
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, lock *hostlock.Lock)
		lose   int
		fails  bool   // the last step
		calls  string // that the run makes
		want   string // part of its error
		note   string // result and number of changes
	}{
		"alone": {calls: "check apply", note: "done 3"},
		"beside another run": {calls: "check apply lock unlock", want: "another nodejoin is at work",
			before: func(t *testing.T, lock *hostlock.Lock) {
				if r, err := lock.Take(t.Context(), steps.LockRequest{Holder: holder("other")}); err != nil || r.By != nil {
					t.Fatalf("%+v, %v", r, err)
				}
				t.Cleanup(func() { _ = lock.Release() })
			}},
		"after a run that died": {calls: "check apply apply", note: "done 3",
			before: func(t *testing.T, lock *hostlock.Lock) {
				if _, err := lock.Take(t.Context(), steps.LockRequest{Holder: holder("dead")}); err != nil {
					t.Fatal(err)
				}
				if err := lock.Abandon(); err != nil {
					t.Fatal(err)
				}
			}},
		"a reply is lost":        {lose: 1, calls: "check apply lock apply", note: "done 3"},
		"the last step fails":    {fails: true, calls: "check apply note", want: "d2", note: "failed 2"},
		"nothing is as it began": {lose: 3, calls: "check apply lock apply lock apply lock apply", note: "done 3"},
	} {
		t.Run(name, func(t *testing.T) {
			m := transport.NewTestMachine(t)
			if err := os.MkdirAll(m.Data(), 0o700); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			n := plan.Node{Name: "n1", OS: "linux"}
			for _, id := range []string{"d0", "d1", "d2"} {
				n.Steps = append(n.Steps, steps.Spec{ID: id, Kind: "directory",
					Args: steps.MustArgs(&kinds.Directory{Path: filepath.Join(dir, id)})})
			}
			if c.before != nil {
				c.before(t, hostlock.New(m.Data()))
			}
			var made []string
			var events []event.Event
			s := engine.New(&plan.Compiled{Nodes: []plan.Node{n}}, engine.Options{Holder: holder("mine"), Version: "1",
				Emit: func(e event.Event) { events = append(events, e) },
				Connect: func(ctx context.Context, _ plan.Node) (transport.Conn, error) {
					conn, err := m.Dial(ctx)
					return calls{conn, &made, &c.lose}, err
				}})
			defer s.Close()
			s.Check(t.Context())
			if c.fails {
				if err := os.WriteFile(filepath.Join(dir, "d2"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sum := s.Apply(t.Context()).Hosts[0]
			if have := strings.Join(made, " "); have != c.calls {
				t.Errorf("calls: %s, want %s", have, c.calls)
			}
			if c.want == "" && sum.Err != nil ||
				c.want != "" && (sum.Err == nil || !strings.Contains(sum.Err.Error(), c.want)) {
				t.Errorf("%v, want %q", sum.Err, c.want)
			}
			wantNotes(t, m.Data(), c.note)
			_, err := os.Stat(filepath.Join(m.Data(), hostlock.HolderFile))
			if held := name == "beside another run"; held != (err == nil) {
				t.Errorf("the file of the lock holder: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "d0")); (err == nil) != (c.note != "") {
				t.Errorf("d0: %v", err)
			}
			warned := slices.IndexFunc(events, func(e event.Event) bool {
				w, ok := e.(event.Warning)
				return ok && w.Summary == "an earlier run did not end"
			})
			began := slices.IndexFunc(events, func(e event.Event) bool { _, ok := e.(event.StepStarted); return ok })
			if died := name == "after a run that died"; died != (warned >= 0) || died && warned > began {
				t.Errorf("the warning is event %d, the first step event %d", warned, began)
			}
		})
	}
}

// wantNotes compares the notes of a machine with the result and number of changes of the only run; "" = none.
func wantNotes(t *testing.T, dir, want string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "history.json"))
	if want == "" {
		if err == nil || !os.IsNotExist(err) {
			t.Errorf("notes: %s, %v", b, err)
		}
		return
	}
	var notes []executor.RunNote
	if err == nil {
		err = json.Unmarshal(b, &notes)
	}
	if err != nil || len(notes) != 1 {
		t.Fatalf("notes: %s, %v", b, err)
	}
	n := notes[0]
	if have := fmt.Sprint(n.Result, " ", len(n.Changed)); have != want || n.Holder.Run != "mine" || n.Version != "1" ||
		n.Ended.Before(time.Now().Add(-time.Minute)) || n.Took <= 0 || n.Ended.Nanosecond() != 0 {
		t.Errorf("the note is %+v, want %s", n, want)
	}
}

// TestRunLostForGood: an apply that takes the lock in its first call, and whose connection is then lost for good,
// cannot note itself. The machine keeps who it was, and the next run reports that before it changes anything.
func TestRunLostForGood(t *testing.T) {
	m := transport.NewTestMachine(t)
	if err := os.MkdirAll(m.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := plan.Node{Name: "n1", OS: "linux"}
	for _, id := range []string{"d0", "d1"} {
		n.Steps = append(n.Steps, steps.Spec{ID: id, Kind: "directory",
			Args: steps.MustArgs(&kinds.Directory{Path: filepath.Join(dir, id)})})
	}
	run := func(name string, lose int) (*engine.Session, *[]event.Event) {
		var made []string
		events, dialled := &[]event.Event{}, false
		s := engine.New(&plan.Compiled{Nodes: []plan.Node{n}}, engine.Options{Version: "1",
			Holder: steps.LockHolder{Run: name, User: "alice", Host: "ctl", PID: 7, Command: "apply"},
			Emit:   func(e event.Event) { *events = append(*events, e) },
			Connect: func(ctx context.Context, _ plan.Node) (transport.Conn, error) {
				if dialled && lose > 0 {
					return nil, &transport.ConnectError{Reason: transport.ReasonAuth, Summary: "it takes no login"}
				}
				dialled = true
				conn, err := m.Dial(ctx)
				left := lose
				return calls{conn, &made, &left}, err
			}})
		t.Cleanup(s.Close)
		s.Check(t.Context())
		return s, events
	}
	first, _ := run("lost", 1)
	// The second step fails, so that the machine does not note the run as done by itself.
	if err := os.WriteFile(filepath.Join(dir, "d1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if sum := first.Apply(t.Context()).Hosts[0]; sum.Err == nil {
		t.Fatal("the run has not lost its machine")
	}
	wantNotes(t, m.Data(), "")
	if err := os.Remove(filepath.Join(dir, "d1")); err != nil {
		t.Fatal(err)
	}
	next, events := run("next", 0)
	if sum := next.Apply(t.Context()).Hosts[0]; sum.Err != nil || len(sum.Changed) != 1 {
		t.Errorf("%+v", sum)
	}
	reported := slices.IndexFunc(*events, func(e event.Event) bool {
		w, ok := e.(event.Warning)
		return ok && w.Summary == "an earlier run did not end" && strings.Contains(w.Detail, "alice on ctl")
	})
	began := slices.IndexFunc(*events, func(e event.Event) bool { _, ok := e.(event.StepStarted); return ok })
	if reported < 0 || reported > began {
		t.Errorf("the report is event %d, the first step event %d", reported, began)
	}
}

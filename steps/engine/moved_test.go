package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

const movedBlock = "\nmoved {\n  from = \"win-1\"\n  to   = \"web-1\"\n}\n"

// moves gives the node of a plan another name, with a moved block.
func (w *world) moves(d drawn) {
	w.write(d)
	w.edit(`name    = "win-1"`, `name    = "web-1"`)
	w.add(movedBlock)
}

// TestMovedNode: a machine whose node has a new name is drained under the former one before anything on it is changed,
// and ends as if it had never had it: no --prune is needed.
func TestMovedNode(t *testing.T) {
	for _, osName := range []string{"windows", "linux"} {
		t.Run(osName, func(t *testing.T) {
			plan := planOf(osName, "motd", "labels")
			alone := newWorld(t)
			alone.moves(plan)
			alone.mustConverge()
			w := newWorld(t)
			if err := w.applied(plan); err != nil {
				t.Fatal(err)
			}
			w.moves(plan)
			r := w.check()
			if m := r.Hosts[0].Moved; len(m) != 1 || m[0].Name != "win-1" || len(r.Former) > 0 {
				t.Fatalf("moved: %+v; former: %+v", m, r.Former)
			}
			w.events = nil
			sum := w.mustConverge()
			if d := cmp.Diff([]string{"win-1"}, sum.Hosts[0].Moved); d != "" {
				t.Errorf("moved (-want +have):\n%s", d)
			}
			order := []string{}
			for _, e := range w.events {
				if s, ok := e.(event.StepDone); ok && s.Result == "changed" {
					order = append(order, s.Host+" "+s.Step)
				}
			}
			if n := len(order); n < 5 || !slices.Equal(order[:2], []string{"win-1 cordon", "win-1 drain"}) ||
				order[n-1] != "win-1 node_object" {
				t.Errorf("the order: %s", strings.Join(order, ", "))
			}
			w.wantMoved()
			if d := cmp.Diff(alone.underAnyName(t, "web-1"), w.underAnyName(t, "web-1")); d != "" {
				t.Errorf("under that name alone (-), moved (+):\n%s", d)
			}
		})
	}
}

// wantMoved: the machine is web-1 alone, and a second run has nothing to do.
func (w *world) wantMoved() {
	w.t.Helper()
	if _, err := w.cluster().Node(w.t.Context(), "win-1"); !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("the former Node: %v", err)
	}
	if n := w.node("web-1"); !n.Ready || n.Unschedulable {
		w.t.Errorf("the Node: %+v", n)
	}
	if r := w.check(); r.Pending() > 0 || len(r.Former) > 0 {
		w.t.Errorf("%d changes, former: %+v", r.Pending(), r.Former)
	}
	w.mustBeQuiet()
}

// TestMovedNodeKilled: a run that is killed in the middle of a move is completed by the next one. If the name is
// changed back instead, the Node takes pods again.
func TestMovedNodeKilled(t *testing.T) {
	plan := planOf("windows", "labels")
	w := newWorld(t)
	if err := w.applied(plan); err != nil {
		t.Fatal(err)
	}
	kept := w.copy(t)
	w.moves(plan)
	w.mustConverge()
	calls := int(w.calls.Load())
	if calls < 5 {
		t.Fatalf("%d mutating calls", calls)
	}
	for n := 0; n < calls; n += max(1, calls/6) {
		t.Run(fmt.Sprintf("after %d calls", n), func(t *testing.T) {
			c := kept.copy(t)
			c.moves(plan)
			c.apply(int64(n))
			c.mustConverge()
			c.wantMoved()
		})
	}
	back := kept.copy(t)
	back.moves(plan)
	back.apply(int64(calls / 2))
	if n := back.node("win-1"); !n.Unschedulable {
		t.Fatalf("the former Node was not drained: %+v", n)
	}
	back.write(plan)
	back.mustConverge()
	if n := back.node("win-1"); !n.Ready || n.Unschedulable {
		t.Errorf("the Node, after the name was changed back: %+v", n)
	}
	back.mustBeQuiet()
}

// TestMovedFromAnotherMachine: a Node with another address is not the machine of the moved block; nothing is done to
// it, and it is reported as before.
func TestMovedFromAnotherMachine(t *testing.T) {
	plan := planOf("windows", "labels")
	w := newWorld(t)
	if err := w.applied(plan); err != nil {
		t.Fatal(err)
	}
	w.moves(plan)
	w.edit(`ip += "192\.0\.2\.\d+"`, `ip = "192.0.2.77"`)
	w.edit(`\.sandbox/win-1`, `.sandbox/other`)
	w.events = nil
	r := w.check()
	isWin1 := func(n kube.Node) bool { return n.Name == "win-1" }
	if len(r.Hosts[0].Moved) > 0 || !slices.ContainsFunc(r.Former, isWin1) {
		t.Errorf("moved: %+v; former: %+v", r.Hosts[0].Moved, r.Former)
	}
	if !slices.ContainsFunc(w.events, func(e event.Event) bool {
		warn, ok := e.(event.Warning)
		return ok && warn.Summary == "the Node win-1 is another machine's"
	}) {
		t.Errorf("no warning: %+v", w.events)
	}
	w.mustConverge()
	if n := w.node("win-1"); !n.Ready || n.Unschedulable {
		t.Errorf("the other Node: %+v", n)
	}
}

package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
)

// Regression tests of what TestPlanIsTheWholeTruth found.

// TestStepsShareTheNode: labels and taints of several steps do not remove each other, and each goes with its own step.
func TestStepsShareTheNode(t *testing.T) {
	w := newWorld(t)
	some := planOf("windows", "labels", "taint { key = \"site\" value = \"x\" effect = \"NoSchedule\" }")
	more := planOf("windows", "labels", "taint { key = \"site\" value = \"x\" effect = \"NoSchedule\" }")
	for i, p := range more.parts {
		if p.dimension == "labelled" || p.dimension == "tainted" {
			more.parts[i] = dimensions("windows")[p.dimension][1]
		}
	}
	for _, err := range []error{w.applied(more), w.quiet()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n := w.node("win-1")
	if n.Labels["example.com/pool"] != "x" || n.Labels["example.com/rack"] != "7" || len(n.Taints) != 2 {
		t.Errorf("labels %v, taints %v", n.Labels, n.Taints)
	}
	for _, err := range []error{w.applied(some), w.quiet()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n = w.node("win-1")
	if _, there := n.Labels["example.com/rack"]; there || n.Labels["example.com/pool"] != "x" || len(n.Taints) != 1 {
		t.Errorf("without its step: labels %v, taints %v", n.Labels, n.Taints)
	}
}

// TestJoinByAnotherWay: a node that joined with a token changes to a kubeconfig of the plan, back to a token, and
// leaves.
func TestJoinByAnotherWay(t *testing.T) {
	w := newWorld(t)
	token, given := planOf("windows"), planOf("windows", "join kubeconfig")
	w.write(token)
	before := settled(snapshot(t, w.opened(t)))
	for _, d := range []drawn{token, given, token} {
		if err := w.applied(d); err != nil {
			t.Fatal(err)
		}
		if err := w.quiet(); err != nil {
			t.Fatal(err)
		}
	}
	if err := leaves(w); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, settled(snapshot(t, w.sandboxDir()))); d != "" {
		t.Errorf("before (-), after the leave (+):\n%s", d)
	}
}

// opened returns the path of an existing folder of the machine.
func (w *world) opened(t *testing.T) string {
	t.Helper()
	open(t, w)
	return w.sandboxDir()
}

// TestOpenedToOthers: files of nodejoin and of the kubelet that others can read are found, and are private again after
// an apply.
func TestOpenedToOthers(t *testing.T) {
	w := newWorld(t)
	d := planOf("linux")
	if err := w.applied(d); err != nil {
		t.Fatal(err)
	}
	h := open(t, w)
	if err := h.WriteFile(t.Context(), "/var/lib/nodejoin/history.json", strings.NewReader("{}"),
		host.WriteOptions{Access: host.AccessPrivate}); err != nil { // as the command does
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/kubernetes/kubelet.conf", "/var/lib/nodejoin/history.json",
		"/var/lib/nodejoin"} {
		if err := h.SetAccess(t.Context(), path, host.AccessDefault); err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, s := range w.check().Hosts[0].Steps {
			if !s.Result.Change.NoOp() {
				found = append(found, s.Spec.ID)
			}
		}
		if len(found) != 1 || !strings.HasSuffix(found[0], "_dir") {
			t.Errorf("%s: found by %q", path, found)
		}
		if err := w.applied(d); err != nil {
			t.Fatal(err)
		}
		if fi, err := h.Stat(t.Context(), path); err != nil || fi.Access != host.AccessPrivate {
			t.Errorf("%s: %+v, %v", path, fi, err)
		}
		if err := w.quiet(); err != nil {
			t.Error(err)
		}
	}
	// What a record says that others could have written counts for nothing.
	if err := h.SetAccess(t.Context(), "/var/lib/nodejoin/record.json", host.AccessDefault); err != nil {
		t.Fatal(err)
	}
	var refused []string
	r := w.check().Hosts[0]
	if r.Err != nil {
		refused = append(refused, r.Err.Error())
	}
	for _, s := range r.Steps {
		if s.Result.Err != nil {
			refused = append(refused, s.Result.Err.Error())
		}
	}
	if text := strings.Join(refused, "\n"); !strings.Contains(text, "record.json") {
		t.Errorf("the plan says %q", text)
	}
}

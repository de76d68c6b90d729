package engine_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/kube"
)

// A node that the plan gives another name joins under it, on the same machine. The machine is then as if it had
// joined under that name at first, the former Node is reported, and pruned with its credentials.
func TestRenamedNode(t *testing.T) {
	for _, osName := range []string{"windows", "linux"} {
		t.Run(osName, func(t *testing.T) {
			plan := planOf(osName, "motd", "labels")
			renamed := func(w *world) {
				w.write(plan)
				w.edit(`name    = "win-1"`, `name    = "web-1"`)
			}
			alone := newWorld(t)
			renamed(alone)
			alone.mustConverge()
			w := newWorld(t)
			if err := w.applied(plan); err != nil {
				t.Fatal(err)
			}
			renamed(w)
			w.mustConverge()
			w.mustBeQuiet()
			if d := cmp.Diff(alone.underAnyName(t, "web-1"), w.underAnyName(t, "web-1")); d != "" {
				t.Errorf("under that name alone (-), renamed (+):\n%s", d)
			}
			r := w.check()
			if !slices.ContainsFunc(r.Former, func(n kube.Node) bool { return n.Name == "win-1" }) {
				t.Errorf("former Nodes: %+v", r.Former)
			}
			s := w.session(w.compile())
			defer s.Close()
			for _, p := range s.Prune(t.Context(), s.Check(t.Context())) {
				if p.Err != nil {
					t.Error(p.Err)
				}
			}
			if _, err := w.cluster().Node(t.Context(), "win-1"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the former Node after the prune: %v", err)
			}
			if n := w.node("web-1"); !n.Ready {
				t.Errorf("the Node: %+v", n)
			}
			w.mustBeQuiet()
			for name, text := range kept(snapshot(t, w.sandboxDir())) {
				if strings.HasPrefix(name, "C") && strings.Contains(text, "win-1") {
					t.Errorf("%s still names the former Node: %.300q", name, text)
				}
			}
		})
	}
}

// underAnyName is what the machine is, and its Node, with the subnet of the first Node. The machine's own name is
// that of its first node.
func (w *world) underAnyName(t *testing.T, node string) map[string]string {
	t.Helper()
	out := map[string]string{}
	subnet := strings.NewReplacer("10.244.1.", "10.244.0.")
	own := strings.NewReplacer("web-1", "win-1", "WEB-1", "WIN-1")
	for k, v := range w.factsOf(t, node) {
		if k == "state: registry" {
			v = own.Replace(v)
		}
		out[subnet.Replace(k)] = subnet.Replace(v)
	}
	return out
}

// Another label of the cluster block is another name for the same plan: nothing of the machine or of the cluster is
// another plan's for it, and what the renamed plan no longer has goes.
func TestRenamedPlan(t *testing.T) {
	alone := newWorld(t)
	renamed := func(w *world, parts ...string) {
		w.write(planOf("windows", parts...))
		w.edit(`cluster "demo"`, `cluster "prod"`)
	}
	renamed(alone, "labels", "objects bc")
	alone.mustConverge()
	w := newWorld(t)
	if err := w.applied(planOf("windows", "motd", "labels", "objects ab")); err != nil {
		t.Fatal(err)
	}
	renamed(w, "motd", "labels", "objects ab")
	w.mustConverge()
	w.mustBeQuiet()
	renamed(w, "labels", "objects bc")
	w.mustConverge()
	w.mustBeQuiet()
	if d := cmp.Diff(alone.objects(), w.objects()); d != "" {
		t.Errorf("objects under that name alone (-), renamed (+):\n%s", d)
	}
	w.wantNoMotd()

	// In one step, too.
	w = newWorld(t)
	if err := w.applied(planOf("windows", "motd", "labels", "objects ab")); err != nil {
		t.Fatal(err)
	}
	renamed(w, "labels", "objects bc")
	w.mustConverge()
	w.mustBeQuiet()
	if d := cmp.Diff(alone.objects(), w.objects()); d != "" {
		t.Errorf("objects under that name alone (-), renamed with the change (+):\n%s", d)
	}
	w.wantNoMotd()
}

func (w *world) wantNoMotd() {
	w.t.Helper()
	h, _ := w.box()
	if _, err := h.Stat(w.t.Context(), `C:\site\motd`); !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("the file that the plan no longer has: %v", err)
	}
}

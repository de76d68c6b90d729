package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/kube"
)

// TestRenamedNode: if the plan renames a node, the same machine joins under the new name and is then as if it had
// never had the other one. The former Node is reported, and pruned with its credentials.
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

// underAnyName returns the state of the machine and its Node without the node's name. It uses the subnet of the first
// Node; the machine's own name is that of its first node.
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

// TestRenamedPlan: another label of the cluster block is another name of the same plan. Nothing on the machine or in
// the cluster counts as another plan's because of it, and what the renamed plan drops is removed.
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

	// Renaming and dropping in one step works, too.
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

// TestRenamedPlanKilled: a run with the new name that is killed at any mutating call is completed by the next one: it
// does not forget the former name before everything under it is gone.
func TestRenamedPlanKilled(t *testing.T) {
	renamed := func(w *world) {
		w.write(planOf("windows", "labels", "objects bc"))
		w.edit(`cluster "demo"`, `cluster "prod"`)
	}
	alone := newWorld(t)
	renamed(alone)
	alone.mustConverge()
	w := newWorld(t)
	if err := w.applied(planOf("windows", "motd", "labels", "objects ab")); err != nil {
		t.Fatal(err)
	}
	renamed(w)
	ended, kept := []string{}, t.TempDir()
	w.at = func(n int64) {
		dir := filepath.Join(kept, fmt.Sprintf("%03d", n))
		if err := copyTree(dir, w.dir); err != nil {
			t.Error(err)
		}
		ended = append(ended, dir)
	}
	w.mustConverge()
	if len(ended) < 5 {
		t.Fatalf("%d mutating calls", len(ended))
	}
	for _, dir := range ended {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c := w.movedTo(t, dir)
			renamed(c)
			c.mustConverge()
			if d := cmp.Diff(alone.objects(), c.objects()); d != "" {
				t.Errorf("objects under that name alone (-), after a run that was killed (+):\n%s", d)
			}
			c.wantNoMotd()
			c.mustBeQuiet()
		})
	}
}

// TestRenamedPlanKeepsWhatWasChanged: what stays under a former name, because somebody changed it, does not show up as
// a change in the next plan. Once it may be removed, it is removed with the former set.
func TestRenamedPlanKeepsWhatWasChanged(t *testing.T) {
	w := newWorld(t)
	if err := w.applied(planOf("windows", "objects ab")); err != nil {
		t.Fatal(err)
	}
	list, err := kube.ParseManifests("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {theirs: x}\n")
	if err == nil {
		err = w.cluster().ApplyManifestAs(t.Context(), list[0], "kubectl")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.write(planOf("windows", "objects bc"))
	w.edit(`cluster "demo"`, `cluster "prod"`)
	w.mustConverge()
	w.mustBeQuiet()
	found := w.check().Objects
	if len(found) != 1 || found[0].Name != "a" || found[0].Left == "" {
		t.Fatalf("what stays: %+v", found)
	}
	if err := w.cluster().DeleteObject(t.Context(), found[0].Member); err != nil {
		t.Fatal(err)
	}
	found = w.check().Objects
	if len(found) != 1 || !strings.Contains(found[0].Finishes, "renaming from demo") {
		t.Errorf("what is to be finished: %+v", found)
	}
	w.mustConverge()
	w.mustBeQuiet()
	for _, o := range w.objects() {
		if strings.Contains(o, "nodejoin-demo") {
			t.Errorf("%s is there", o)
		}
	}
}

func (w *world) wantNoMotd() {
	w.t.Helper()
	h, _ := w.box()
	if _, err := h.Stat(w.t.Context(), `C:\site\motd`); !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("the file that the plan no longer has: %v", err)
	}
}

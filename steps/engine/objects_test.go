package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// objects returns the cluster's objects by group, kind, namespace and name; those of nodejoin with their set.
func (w *world) objects() (out []string) {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, ".sandbox", "cluster", "cluster.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var state struct {
		Objects map[string]struct {
			Fields struct {
				Metadata struct {
					Labels      map[string]string `json:"labels"`
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			} `json:"fields"`
		} `json:"objects"`
	}
	if err := json.Unmarshal(b, &state); err != nil {
		w.t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(state.Objects)) {
		meta := state.Objects[key].Fields.Metadata
		if meta.Labels[kube.PartOf] != "" {
			key += "*"
		}
		if kinds := meta.Annotations["applyset.kubernetes.io/contains-group-kinds"]; kinds != "" {
			key += "(" + kinds + ")"
		}
		out = append(out, key)
	}
	return out
}

// TestObjectsOfThePlan: objects that a plan no longer names are found by their labels and deleted. Objects that others
// changed stay, and so do those that the plan keeps and those of others.
func TestObjectsOfThePlan(t *testing.T) {
	w := newWorld(t)
	cluster, err := sandbox.OpenCluster(t.Context(),
		sandbox.ClusterConfig{Dir: filepath.Join(w.dir, ".sandbox", "cluster")})
	if err != nil {
		t.Fatal(err)
	}
	by := func(text, manager string) {
		t.Helper()
		list, err := kube.ParseManifests(text)
		if err == nil {
			err = cluster.ApplyManifestAs(t.Context(), list[0], manager)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	plan := func(parts ...string) {
		t.Helper()
		d := drawn{os: "windows", parts: []choice{in("objects", "steps", strings.Join(parts, ""))}}
		if err := w.applied(d); err != nil {
			t.Fatal(err)
		}
	}
	is := func(when string, want ...string) {
		t.Helper()
		if have := w.objects(); !slices.Equal(have, want) {
			t.Errorf("%s: %q, want %q", when, have, want)
		}
	}
	const parent = "/ConfigMap/kube-system/nodejoin-demo(ConfigMap)"
	by("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\ndata: {a: x}", "kubectl")
	plan(configMap("a", "x", ""), configMap("b", "x", ""), configMap("c", "x", "keep = true"), configMap("d", "x", ""))
	is("made", "/ConfigMap//a*", "/ConfigMap//b*", "/ConfigMap//c", "/ConfigMap//d*", "/ConfigMap//theirs", parent)

	by("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\ndata: {more: y}", "kubectl")
	r := w.check()
	if len(r.Objects) != 0 || r.Pending() != 0 {
		t.Errorf("all are in the plan: %v, %d pending", r.Objects, r.Pending())
	}
	w.write(drawn{os: "windows", parts: []choice{in("objects", "steps", configMap("a", "x", ""))}})
	r = w.check()
	var found []string
	for _, o := range r.Objects {
		found = append(found, o.String()+": "+o.Left)
	}
	want := []string{"ConfigMap b: ",
		"ConfigMap d: kubectl changed it since nodejoin made it; --prune-changed deletes it"}
	if !slices.Equal(found, want) || r.Pending() != 1 {
		t.Errorf("the plan shows %q, %d pending, want %q", found, r.Pending(), want)
	}
	plan(configMap("a", "x", ""))
	is("b and d dropped", "/ConfigMap//a*", "/ConfigMap//c", "/ConfigMap//d*", "/ConfigMap//theirs", parent)
	if err := w.quiet(); err != nil {
		t.Error(err)
	}
	plan()
	is("all dropped", "/ConfigMap//c", "/ConfigMap//d*", "/ConfigMap//theirs", parent)
}

// TestObjectsOfAFact: a manifest whose content is known only later does not stop deletions, because its object is
// known: other objects that the plan drops are deleted, its own object stays and goes with it. If the name is not
// known, or more objects are possible, nothing is deleted.
func TestObjectsOfAFact(t *testing.T) {
	const parent = "/ConfigMap/kube-system/nodejoin-demo(ConfigMap)"
	fact := func(name, value string) string {
		return fmt.Sprintf("step \"manifest\" \"fact\" {\n  content = <<-E\n    apiVersion: v1\n    kind: ConfigMap\n"+
			"    metadata: {name: \"%s\"}\n    data: {a: \"%s\"}\n  E\n}\n", name, value)
	}
	for _, c := range []struct {
		name, with string
		want       []string // after the plan has dropped b
	}{
		{"value", fact("f", "${self.management_ip}"), []string{"/ConfigMap//f*", parent}},
		{"name", fact("f-${self.management_ip}", "x"),
			[]string{"/ConfigMap//b*", "/ConfigMap//f-192.0.2.11*", parent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			for _, parts := range []string{c.with + configMap("b", "x", ""), c.with} {
				d := drawn{os: "windows", parts: []choice{in("objects", "steps", parts)}}
				if err := w.applied(d); err != nil {
					t.Fatal(err)
				}
			}
			if have := w.objects(); !slices.Equal(have, c.want) {
				t.Errorf("%q, want %q", have, c.want)
			}
		})
	}
}

// TestObjectsKilled: a run that was stopped between the deletion of an object and the update of the set's parent is
// completed by the next run, which shows it.
func TestObjectsKilled(t *testing.T) {
	w := newWorld(t)
	d := drawn{os: "windows", parts: []choice{in("objects", "steps", `step "manifest" "role" {
  content = <<-E
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: tool}
    rules: []
  E
}
`+configMap("a", "x", ""))}}
	if err := w.applied(d); err != nil {
		t.Fatal(err)
	}
	d.parts[0].in["steps"] = configMap("a", "x", "")
	w.write(d)
	_, sum := w.apply(1) // only the first call, which deletes the object
	if sum.ObjectsErr == nil || len(w.objects()) != 2 {
		t.Fatalf("stopped after the deletion: %v, %q", sum.ObjectsErr, w.objects())
	}
	r := w.check()
	want := "a run that was stopped left ClusterRole.rbac.authorization.k8s.io in the list of what it has"
	if len(r.Objects) != 1 || r.Objects[0].Finishes != want || r.Pending() != 1 {
		t.Errorf("the plan after it: %+v, %d pending", r.Objects, r.Pending())
	}
	if err := w.applied(d); err != nil {
		t.Fatal(err)
	}
	left := []string{"/ConfigMap//a*", "/ConfigMap/kube-system/nodejoin-demo(ConfigMap)"}
	if have := w.objects(); !slices.Equal(have, left) {
		t.Errorf("the next run: %q", have)
	}
	if err := w.quiet(); err != nil {
		t.Error(err)
	}
}

// TestObjectsOfAnotherSet: nodejoin does not take over an object of another plan or tool.
func TestObjectsOfAnotherSet(t *testing.T) {
	w := newWorld(t)
	cluster, err := sandbox.OpenCluster(t.Context(),
		sandbox.ClusterConfig{Dir: filepath.Join(w.dir, ".sandbox", "cluster")})
	if err != nil {
		t.Fatal(err)
	}
	list, err := kube.ParseManifests("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: x}")
	if err == nil {
		err = cluster.ApplyManifest(t.Context(), list[0].In(kube.ApplySet{Plan: "other"}.ID()))
	}
	if err != nil {
		t.Fatal(err)
	}
	d := drawn{os: "windows", parts: []choice{in("objects", "steps", configMap("a", "x", ""))}}
	if err := w.applied(d); err == nil || !strings.Contains(err.Error(), "member of another ApplySet") {
		t.Errorf("taken over: %v", err)
	}
	d.parts[0].in["steps"] = configMap("a", "x", "keep = true")
	if err := w.applied(d); err != nil {
		t.Error(err)
	}
	d.parts[0].in["steps"] = ""
	if err := w.applied(d); err != nil {
		t.Error(err)
	}
	if have := w.objects(); !slices.Equal(have, []string{"/ConfigMap//a*"}) {
		t.Errorf("the other's object: %q", have)
	}
}

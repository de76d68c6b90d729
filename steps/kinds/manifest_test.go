package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/stepstest"
)

const manifestText = `apiVersion: v1
kind: Namespace
metadata: {name: tools}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: tools, labels: {example.com/team: a}}
data: {one: "1", two: "2"}
`

// runOnce runs a step with steps.Run; changed reports whether it changed something.
func runOnce(t *testing.T, k kube.API, m *kinds.Manifest) (changed bool, err error) {
	t.Helper()
	e := &steps.Env{Node: "win-1", StepID: "m", Progress: func(event.StepProgress) {}}
	r := executor.Run(t.Context(), "win-1", stepstest.Spec("manifest", "m", m), map[string]string{}, e,
		func(event.Event) {}, executor.Target{Kinds: kinds.Catalog(), Kube: k})
	if r.Err != nil {
		return r.Changed, r.Err
	}
	return r.Changed, nil
}

func manifestCluster(t *testing.T) *sandbox.Cluster {
	t.Helper()
	k, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: t.TempDir()})
	stepstest.Must(t, err)
	return k
}

func parsed(t *testing.T, text string) []kube.Manifest {
	t.Helper()
	list, err := kube.ParseManifests(text)
	stepstest.Must(t, err)
	return list
}

// diffs returns the fields that differ in a check.
func diffs(t *testing.T, k kube.Reader, m *kinds.Manifest) string {
	t.Helper()
	c, err := m.Check(t.Context(), k, &steps.Env{Node: "win-1"})
	stepstest.Must(t, err)
	var out []string
	if c.Reason != "" {
		out = append(out, c.Reason)
	}
	for _, d := range c.Diffs {
		out = append(out, d.Name+": "+d.Have+" -> "+d.Want)
	}
	return strings.Join(out, "\n")
}

// Fresh, applied again, drifted, and with fields that are no longer wanted.
func TestManifest(t *testing.T) {
	k := manifestCluster(t)
	m := &kinds.Manifest{Content: manifestText}
	if have := diffs(t, k, m); have != "missing: Namespace tools; ConfigMap tools/settings" {
		t.Errorf("fresh: %s", have)
	}
	for i, want := range []bool{true, false} {
		if changed, err := runOnce(t, k, m); err != nil || changed != want {
			t.Fatalf("run %d: changed %v, %v", i+1, changed, err)
		}
	}
	if data, err := k.ConfigMap(t.Context(), "tools", "settings"); err != nil || len(data) != 2 || data["one"] != "1" {
		t.Errorf("the ConfigMap that was applied: %v, %v", data, err)
	}
	// Somebody else sets a field of nodejoin's by force, and one of their own.
	by := parsed(t,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: tools}\ndata: {two: '3', foreign: "+
			"kept}\n")[0]
	by.Force = true
	stepstest.Must(t, k.ApplyManifestAs(t.Context(), by, "kubectl"))
	_, err := runOnce(t, k, m)
	var se *steps.Error
	if !errors.As(err, &se) || se.Detail != `ConfigMap tools/settings: data.two is set by "kubectl"` ||
		!strings.Contains(se.Remedy, "force = true") {
		t.Errorf("a field of somebody else: %#v", err)
	}
	m.Force = true
	if have := diffs(t, k, m); have != "ConfigMap tools/settings data.two: 3 -> 2" {
		t.Errorf("drifted: %s", have)
	}
	if changed, err := runOnce(t, k, m); err != nil || !changed {
		t.Errorf("forced: %v, %v", changed, err)
	}
	// A field that nodejoin no longer wants is removed; fields of others stay.
	m.Content = strings.Replace(manifestText, `one: "1", `, "", 1)
	if have := diffs(t, k, m); have != "ConfigMap tools/settings data.one: 1 -> " {
		t.Errorf("one less: %s", have)
	}
	if changed, err := runOnce(t, k, m); err != nil || !changed {
		t.Errorf("one less: %v, %v", changed, err)
	}
}

// An absent object of somebody else is not created; an existing one gets its field.
func TestManifestOfSomebodyElse(t *testing.T) {
	k := manifestCluster(t)
	const selector = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: kube-proxy, namespace: " +
		"kube-system}\nspec: {template: {spec: {nodeSelector: {kubernetes.io/os: linux}}}}\n"
	m := &kinds.Manifest{Content: selector, Existing: true}
	if changed, err := runOnce(t, k, m); err != nil || changed {
		t.Fatalf("absent: changed %v, %v", changed, err)
	}
	if s, err := k.Manifest(t.Context(), parsed(t, selector)[0]); err != nil || s.Exists {
		t.Fatalf("it was made: %+v, %v", s, err)
	}
	stepstest.Must(t,
		k.ApplyManifestAs(t.Context(),
			parsed(t,
				"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: kube-proxy, namespace: kube-system}\nspec: "+
					"{template: {spec: {hostNetwork: true, nodeSelector: {}}}}\n")[0], "kubeadm"))
	if have := diffs(t, k,
		m); have != `DaemonSet kube-system/kube-proxy spec.template.spec.nodeSelector["kubernetes.io/os"]:  -> linux` {
		t.Errorf("have %s", have)
	}
	for _, want := range []bool{true, false} {
		if changed, err := runOnce(t, k, m); err != nil || changed != want {
			t.Fatalf("changed %v, want %v: %v", changed, want, err)
		}
	}
}

// dying fails every mutating call except the first few.
type dying struct {
	kube.API
	left int
}

func (d *dying) ApplyManifest(ctx context.Context, want kube.Manifest) error {
	if d.left--; d.left < 0 {
		return kube.ErrUnreachable
	}
	return d.API.ApplyManifest(ctx, want)
}

// A run that was interrupted between two objects is completed by the next one.
func TestManifestInterrupted(t *testing.T) {
	k := manifestCluster(t)
	m := &kinds.Manifest{Content: manifestText}
	for left := range 2 {
		if _, err := runOnce(t, &dying{k, left}, m); err == nil {
			t.Fatal("the failure was lost")
		}
	}
	if have := diffs(t, k, m); have != "missing: ConfigMap tools/settings" {
		t.Errorf("half done: %s", have)
	}
	if changed, err := runOnce(t, k, m); err != nil || !changed {
		t.Errorf("finished: %v, %v", changed, err)
	}
	stepstest.Must(t, k.SetDown(t.Context(), true))
	if _, err := m.Check(t.Context(), k, &steps.Env{}); !errors.Is(err, kube.ErrUnreachable) {
		t.Errorf("a cluster that does not answer: %v", err)
	}
}

// slowly serves a kind only some checks after its definition was applied.
type slowly struct {
	kube.API
	looks int // checks until it is served; negative = never
	there bool
}

const (
	widgets = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
		"widgets.example.test}\n" +
		"spec: {group: example.test, names: {kind: Widget}, versions: [{name: v1, served: true}, {name: v0, served: " +
		"false}]}\n---\n"
	widget = "apiVersion: example.test/v1\nkind: Widget\nmetadata: {name: one}\n"
)

func (s *slowly) Manifest(ctx context.Context, want kube.Manifest) (kube.ManifestState, error) {
	if want.Kind == "Widget" && (!s.there || s.looks != 0) {
		return kube.ManifestState{}, fmt.Errorf("%w: Widget", kube.ErrNotServed)
	}
	state, err := s.API.Manifest(ctx, want)
	if want.Kind == "CustomResourceDefinition" && s.there && s.looks != 0 {
		s.looks--
		state.Waits = "it is not established yet"
	}
	return state, err
}

func (s *slowly) ApplyManifest(ctx context.Context, want kube.Manifest) error {
	if want.Kind == "Widget" && s.looks != 0 {
		return fmt.Errorf("%w: Widget", kube.ErrNotServed)
	}
	s.there = s.there || want.Kind == "CustomResourceDefinition"
	return s.API.ApplyManifest(ctx, want)
}

// An object whose kind the plan itself defines waits until the kind is served, in the same step and in another. A kind
// that nothing defines is refused, and the wait has a timeout.
func TestManifestOfAKindThatComes(t *testing.T) {
	both := &kinds.Manifest{Content: widgets + widget}
	first, second := &kinds.Manifest{Content: widgets}, &kinds.Manifest{Content: widget}
	plan := func(k kube.Reader) (out []string) {
		for _, r := range executor.CheckCluster(t.Context(), kinds.Catalog(), "", "win-1",
			[]steps.Spec{stepstest.Spec("manifest", "first", first), stepstest.Spec("manifest", "second", second)},
			map[string]string{}, map[string]bool{}, k) {
			text := string(r.Change.Action)
			if r.Err != nil {
				text = r.Err.Error()
			}
			out = append(out, text)
		}
		return out
	}
	for name, list := range map[string][]*kinds.Manifest{"one step": {both}, "two steps": {first, second}} {
		t.Run(name, func(t *testing.T) {
			k := &slowly{API: manifestCluster(t), looks: 2}
			if have := plan(k); !slices.Equal(have, []string{"create", "create"}) {
				t.Errorf("planned: %q", have)
			}
			for _, m := range list {
				if changed, err := runOnce(t, k, m); err != nil || !changed {
					t.Fatalf("changed %v, %v", changed, err)
				}
			}
			if have := plan(k); !slices.Equal(have, []string{"", ""}) {
				t.Errorf("afterwards: %q", have)
			}
			// A run ended before the kind was served; the next one waits.
			k.looks = 2
			if have := plan(k); !slices.Equal(have, []string{"wait", "create"}) {
				t.Errorf("not served any more: %q", have)
			}
		})
	}
	if _, err := runOnce(t, &slowly{API: manifestCluster(t), looks: 2}, second); err == nil ||
		!strings.Contains(err.Error(), "unknown kind of object") {
		t.Errorf("a kind that nothing defines: %v", err)
	}
	k := manifestCluster(t)
	synctest.Test(t, func(t *testing.T) {
		_, err := runOnce(t, &slowly{API: k, looks: -1}, first)
		var se *steps.Error
		if !errors.As(err, &se) || se.Code != steps.CodeTimeout || !strings.Contains(se.Detail,
			"it is not established yet") {
			t.Errorf("a kind that never comes: %v", err)
		}
	})
}

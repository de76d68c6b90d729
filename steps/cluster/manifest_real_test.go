package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

const manifestText = `# a namespace and what is in it
apiVersion: v1
kind: Namespace
metadata: {name: tools, labels: {team: a}}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings, namespace: tools}
  data: {net-conf.json: '{"Network": "10.244.0.0/16"}', other: "1"}
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {name: agent, namespace: tools}
  spec:
    selector: {matchLabels: {app: agent}}
    template:
      metadata: {labels: {app: agent}}
      spec:
        containers: [{name: agent, image: example/agent, resources: {requests: {cpu: 0.1, memory: 1024Mi}}}]
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: windows-2022}
handler: runhcs-wcow-process
`

// manifests applies objects, finds drift by hand and nothing else, leaves alone what others
// manage, and removes what is no longer wanted.
func (p *controlPlane) manifests(ctx context.Context, a kube.API) {
	check := func(m *kinds.Manifest) (steps.Change, error) {
		return m.Check(ctx, a, &steps.Env{Node: testNode, Progress: func(event.StepProgress) {}})
	}
	m := &kinds.Manifest{Content: manifestText}
	c, err := check(m)
	if err != nil || c.Action != steps.ActionCreate ||
		!strings.Contains(c.Reason, "missing: Namespace tools; ConfigMap tools/settings; DaemonSet tools/agent; "+
			"RuntimeClass windows-2022") {
		p.t.Fatalf("before: %+v, %v", c, err)
	}
	p.run(ctx, a, "manifest", m)

	// Drift by hand, of a field that is nodejoin's and of one that is not.
	maps := p.admin.CoreV1().ConfigMaps("tools")
	have, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	p.must(err)
	have.Data["other"], have.Data["foreign"] = "2", "kept"
	_, err = maps.Update(ctx, have, metav1.UpdateOptions{FieldManager: "somebody"})
	p.must(err)
	_, err = check(m)
	var se *steps.Error
	if !errors.As(err, &se) || !strings.Contains(se.Detail,
		`ConfigMap tools/settings: data.other is set by "somebody"`) || !strings.Contains(se.Remedy, "force = true") {
		p.t.Errorf("a field of somebody else: %v", err)
	}
	m.Force = true
	c, err = check(m)
	if err != nil || c.Action != steps.ActionUpdate || len(c.Diffs) != 1 ||
		c.Diffs[0].Name != "ConfigMap tools/settings data.other" || c.Diffs[0].Have != "2" || c.Diffs[0].Want != "1" {
		p.t.Errorf("forced: %+v, %v", c, err)
	}
	p.run(ctx, a, "manifest", m)
	m.Force = false
	p.must(maps.Delete(ctx, "settings", metav1.DeleteOptions{}))
	if c, err = check(m); err != nil || c.Action != steps.ActionUpdate ||
		c.Reason != "missing: ConfigMap tools/settings" {
		p.t.Errorf("deleted by hand: %+v, %v", c, err)
	}
	p.run(ctx, a, "manifest", m)

	// What is no longer wanted is removed; the foreign field stays.
	have, err = maps.Get(ctx, "settings", metav1.GetOptions{})
	p.must(err)
	have.Data["foreign"] = "kept"
	_, err = maps.Update(ctx, have, metav1.UpdateOptions{FieldManager: "somebody"})
	p.must(err)
	p.run(ctx, a, "manifest", &kinds.Manifest{Content: strings.Replace(manifestText, `, other: "1"`, "", 1)})
	have, err = maps.Get(ctx, "settings", metav1.GetOptions{})
	p.must(err)
	if _, there := have.Data["other"]; there || have.Data["foreign"] != "kept" {
		p.t.Errorf("the ConfigMap holds %v", have.Data)
	}

	// Existing: a missing object is not created.
	patch := &kinds.Manifest{Existing: true,
		Content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: absent, namespace: tools}\ndata: {a: b}\n"}
	if c, err := check(patch); err != nil || !c.NoOp() {
		p.t.Errorf("absent, to be left: %+v, %v", c, err)
	}
	if _, err := patch.Apply(ctx, a, &steps.Env{}, steps.Change{}); err != nil {
		p.t.Error(err)
	}
	if _, err := maps.Get(ctx, "absent", metav1.GetOptions{}); err == nil {
		p.t.Error("it was made")
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "absent"},
		Data: map[string]string{"mine": "1"}}, metav1.CreateOptions{FieldManager: "somebody"})
	p.must(err)
	p.run(ctx, a, "patch", patch)

	p.definitions(ctx, a)
	p.objectSet(ctx, a)

	for _, c := range []struct{ content, want string }{
		{"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n", "example.com/v1"},
		{"apiVersion: v1\nkind: Thing\nmetadata: {name: a}\n", "Thing of v1"},
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nspec: {}\n", "field not declared in schema"},
		{"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n", "have no namespace"},
		{"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}}\n",
			"spec.template"},
		{"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "cannot contain Secrets"},
		{"kind: ConfigMap\n", "an object needs"},
		{"a: 1\na: 2\n", "document 1: line 2: key \"a\" already set in map"},
		{"{", "document 1"},
		{"", "no object"},
	} {
		if _, err := check(&kinds.Manifest{Content: c.content}); err == nil ||
			!strings.Contains(err.Error(), c.want) && !strings.Contains(steps.AsError(err).Detail, c.want) {
			p.t.Errorf("%q: %v, want %q", c.content, err, c.want)
		}
	}
	if _, err := a.(*client).object(ctx, "/api/v1/namespaces/tools/configmaps/none", kube.Manifest{}); !errors.Is(err,
		fs.ErrNotExist) {
		p.t.Errorf("absent: %v", err)
	}
}

// definition is a kind of object, and thing is an object of that kind.
func definition(plural, kind string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.example.test}
spec:
  group: example.test
  scope: Namespaced
  names: {plural: %[1]s, singular: %[2]s, kind: %[3]s, listKind: %[3]sList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`, plural, strings.ToLower(kind), kind)
}

func thing(kind string) string {
	return "apiVersion: example.test/v1\nkind: " + kind + "\nmetadata: {name: one, namespace: tools}\nspec: {a: b}\n"
}

// definitions: the plan itself brings the kind of its objects, in one step and in two.
func (p *controlPlane) definitions(ctx context.Context, a kube.API) {
	p.t.Helper()
	p.run(ctx, a, "both", &kinds.Manifest{Content: definition("gadgets", "Gadget") + thing("Gadget")})
	first, second := &kinds.Manifest{Content: definition("widgets", "Widget")}, &kinds.Manifest{Content: thing("Widget")}
	spec := func(id string, m *kinds.Manifest) steps.Spec {
		return steps.Spec{ID: id, Kind: "manifest", Args: steps.MustArgs(m)}
	}
	for _, r := range executor.CheckCluster(ctx, kinds.Catalog(), "", testNode,
		[]steps.Spec{spec("first", first), spec("second", second)},
		map[string]string{}, map[string]bool{}, a) {
		if r.Err != nil || r.Change.Action != steps.ActionCreate {
			p.t.Errorf("%s: %+v, %v", r.ID, r.Change, r.Err)
		}
	}
	p.run(ctx, a, "first", first)
	p.run(ctx, a, "second", second)
}

// objectSet: objects of a plan are found by their labels, and deleted only if they are still the same.
func (p *controlPlane) objectSet(ctx context.Context, a kube.API) {
	p.t.Helper()
	set := kube.ApplySet{Plan: "demo"}
	members := func() (out []kube.Member) {
		state, err := a.ApplySet(ctx, set)
		p.must(err)
		return state.Members
	}
	if have := members(); len(have) != 0 {
		p.t.Errorf("before: %+v", have)
	}
	p.must(a.ApplyManifest(ctx, set.Parent("0.1.0",
		[]string{"ConfigMap", "RuntimeClass.node.k8s.io", "Gone.example.none"}, []string{"tools"})))
	list, err := kube.ParseManifests(`apiVersion: v1
kind: ConfigMap
metadata: {name: member, namespace: tools}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: elsewhere, namespace: default}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: member}
handler: x
`)
	p.must(err)
	for _, o := range list {
		p.must(a.ApplyManifest(ctx, o.In(set.ID())))
	}
	have := members() // not the one of a namespace that the parent does not name
	if len(have) != 2 || have[0].String() != "ConfigMap tools/member" || have[1].String() != "RuntimeClass member" ||
		have[0].UID == "" || len(have[0].Others)+len(have[1].Others) > 0 {
		p.t.Fatalf("the members are %+v", have)
	}
	state, err := a.Manifest(ctx, list[0].In(set.ID()))
	if err != nil || state.Set != set.ID() || len(state.Differs) > 0 {
		p.t.Errorf("a member: %+v, %v", state, err)
	}
	maps := p.admin.CoreV1().ConfigMaps("tools")
	_, err = maps.Patch(ctx, "member", types.MergePatchType, []byte(`{"data":{"a":"b"}}`),
		metav1.PatchOptions{FieldManager: "somebody"})
	p.must(err)
	if have = members(); len(have) != 2 || fmt.Sprint(have[0].Others) != "[somebody]" {
		p.t.Errorf("changed by somebody: %+v", have)
	}
	other := have[0]
	other.UID = "another"
	if err := a.DeleteObject(ctx, other); !errors.Is(err, kube.ErrChanged) {
		p.t.Errorf("another of that name: %v", err)
	}
	for _, m := range append(have, have[0]) {
		p.must(a.DeleteObject(ctx, m))
	}
	if have := members(); len(have) != 0 {
		p.t.Errorf("after: %+v", have)
	}
}

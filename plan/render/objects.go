package render

import (
	"bytes"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

type object = map[string]any

// ownership is the label of the objects that nodejoin creates, as steps/cluster sets it.
var ownership = object{"app.kubernetes.io/managed-by": "nodejoin"}

// cluster renders what a step creates in the cluster; other steps have no file.
func (t *tree) cluster(s steps.Spec, v any) (string, error) {
	switch a := v.(type) {
	case *kinds.NodeLabels:
		labels := object{}
		for k, v := range a.Labels {
			labels[k] = v
		}
		t.merge("labels", labels)
		return "cluster/node.yaml", nil
	case *kinds.NodeTaints:
		have, _ := t.spec["taints"].([]any)
		for _, x := range a.Taints {
			have = append(have, x)
		}
		t.spec["taints"] = have
		return "cluster/node.yaml", nil
	case *kinds.NodeJoined:
		t.merge("annotations", object{kube.PlanOf: a.Plan})
		return "cluster/node.yaml", nil
	case *kinds.ServiceAccount:
		return t.manifest("serviceaccount-"+name(a.Namespace)+"-"+name(a.Name), s.ID, account(a)...)
	case *kinds.ServiceAccountToken:
		return t.manifest("token-"+name(a.Namespace)+"-"+name(a.Name), s.ID, object{
			"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"metadata": object{"name": a.Name, "namespace": a.Namespace}})
	case *kinds.Manifest:
		if own := strings.TrimPrefix(s.ID, "manifest_"); t.shared[own] == a.Content {
			a.Content = ""
			return "../" + sharedFile(own), nil
		}
		p := t.place("cluster", "manifest-"+name(s.ID), s.ID, ".yaml")
		t.put(p, []byte(steps.ShowRefs(a.Content)))
		a.Content = ""
		return p, nil
	case *kinds.BootstrapToken:
		if a.Absent {
			return "", nil
		}
		return t.manifest("bootstrap-token", s.ID,
			object{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
				"metadata":   object{"name": "bootstrap-token-" + known(s.ID), "namespace": "kube-system"},
				"stringData": object{"token-id": known(s.ID), "token-secret": Hidden}})
	}
	return "", nil
}

func known(id string) string { return steps.ShowRefs(steps.Ref(id + ".token")) }

// merge adds to a map of the Node's metadata.
func (t *tree) merge(key string, more object) {
	have, _ := t.meta[key].(object)
	if have == nil {
		have = object{}
		t.meta[key] = have
	}
	for k, v := range more {
		have[k] = v
	}
}

// kubeNode renders what the Node object must have, if a step sets any of it.
func (t *tree) kubeNode() error {
	if len(t.spec) == 0 && len(t.meta) == 1 {
		return nil
	}
	o := object{"apiVersion": "v1", "kind": "Node", "metadata": t.meta}
	if len(t.spec) > 0 {
		o["spec"] = t.spec
	}
	_, err := t.manifest("node", "", o)
	return err
}

func (t *tree) manifest(base, id string, objects ...object) (string, error) {
	p := t.place("cluster", base, id, ".yaml")
	var b bytes.Buffer
	for i, o := range objects {
		y, err := yaml.Marshal(o)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(y)
	}
	t.put(p, []byte(showJSON(b.String())))
	return p, nil
}

// account is a service account with its role and binding, as steps/cluster creates them.
func account(a *kinds.ServiceAccount) []object {
	out := []object{{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": object{"name": a.Name, "namespace": a.Namespace, "labels": ownership}}}
	if len(a.Rules) > 0 {
		var rules []any
		for _, r := range a.Rules {
			rules = append(rules, object{"apiGroups": r.APIGroups, "resources": r.Resources, "verbs": r.Verbs})
		}
		out = append(out, object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
			"metadata": object{"name": a.ClusterRole, "labels": ownership}, "rules": rules})
	}
	return append(out, object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": object{"name": strings.Join([]string{"nodejoin", a.Namespace, a.Name, a.ClusterRole}, ":"),
			"labels": ownership},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": a.ClusterRole},
		"subjects": []any{object{"kind": "ServiceAccount", "namespace": a.Namespace, "name": a.Name}}})
}

// kubeconfig is the file that the step writes, with references shown.
func kubeconfig(k *kinds.Kubeconfig) ([]byte, error) {
	const in = "default"    // as package steps writes it
	ca := any([]byte(k.CA)) // base64, as in the real file
	if steps.HasRef(k.CA) {
		ca = steps.ShowRefs(k.CA)
	}
	return yaml.Marshal(object{"apiVersion": "v1", "kind": "Config", "current-context": in,
		"clusters": []any{object{"name": in,
			"cluster": object{"server": steps.ShowRefs(k.Server), "certificate-authority-data": ca}}},
		"users":    []any{object{"name": steps.ShowRefs(k.User), "user": object{"token": steps.ShowRefs(k.Token)}}},
		"contexts": []any{object{"name": in, "context": object{"cluster": in, "user": steps.ShowRefs(k.User)}}}})
}

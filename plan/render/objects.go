package render

import (
	"bytes"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
)

type object = map[string]any

// nodeFile is the file of the Node object.
const nodeFile = "node"

// merge adds to a map of the Node's metadata.
func (t *tree) merge(key string, more map[string]string) {
	if len(more) == 0 {
		return
	}
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
	if len(t.taints) == 0 && len(t.meta) == 1 {
		return nil
	}
	o := object{"apiVersion": "v1", "kind": "Node", "metadata": t.meta}
	if len(t.taints) > 0 {
		o["spec"] = object{"taints": t.taints}
	}
	_, err := t.objects(nodeFile, "", o)
	return err
}

// text renders objects that are written as text: those of the plan are in a file for all nodes.
func (t *tree) text(id, content string) string {
	if own := strings.TrimPrefix(id, "manifest_"); t.shared[own] == content {
		return "../" + sharedFile(own)
	}
	p := t.place("cluster", "manifest-"+name(id), id, ".yaml")
	t.put(p, []byte(steps.ShowRefs(content)))
	return p
}

func (t *tree) objects(base, id string, list ...object) (string, error) {
	p := t.place("cluster", base, id, ".yaml")
	var b bytes.Buffer
	for i, o := range list {
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

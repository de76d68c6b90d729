// Package render shows what each node of a compiled plan would get as files: every file, service definition,
// registry value, firewall rule and cluster object. It is pure: it connects to no host and no cluster, and
// the same plan gives the same files.
package render

import (
	"encoding/json"
	"fmt"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// Step is a step as steps.json lists it.
type step struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Title  string          `json:"title,omitempty"`
	After  []string        `json:"after,omitempty"`
	OnlyIf string          `json:"only_if,omitempty"`
	Source string          `json:"source,omitempty"`
	File   string          `json:"file,omitempty"` // file that holds the content
	Args   json.RawMessage `json:"args"`
}

// Nodes renders the manifests and the nodes of a compiled plan. References to values that are known later are
// written by steps.ShowRefs; secrets are Hidden. Files are in the order of nodes and steps.
func Nodes(c *plan.Compiled) ([]File, error) {
	var out []File
	shared := map[string]string{}
	for _, m := range c.Manifests {
		shared[m.Name] = m.Content
		out = append(out, File{Path: sharedFile(m.Name), Data: []byte(m.Content)})
	}
	for _, n := range c.Nodes {
		t := &tree{node: n, shared: shared, taken: map[string]bool{}, lists: map[string][]any{},
			meta: map[string]any{"name": n.Name}}
		if err := t.run(); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Address, err)
		}
		out = append(out, t.files...)
	}
	return out, nil
}

func (t *tree) run() error {
	var list []any
	for _, s := range t.node.Steps {
		args, file, err := t.step(s)
		if err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
		list = append(list, step{ID: s.ID, Kind: s.Kind, Title: steps.ShowRefs(s.Title), After: s.After, OnlyIf: s.OnlyIf,
			Source: s.Source, File: file, Args: args})
	}
	for _, name := range t.order {
		if err := t.json(name, t.lists[name]); err != nil {
			return err
		}
	}
	if err := t.kubeNode(); err != nil {
		return err
	}
	return t.json("steps.json", list)
}

// Args are the arguments of a step as JSON: secrets are Hidden, references to values that are known later are
// written by steps.ShowRefs.
func Args(s steps.Spec) (json.RawMessage, error) {
	_, v, err := shown(s)
	if err != nil {
		return nil, err
	}
	return encode(v, "")
}

// shown returns the kind of a step and its arguments without secrets.
func shown(s steps.Spec) (steps.Kind, any, error) {
	k, ok := kinds.Lookup(s.Kind)
	if !ok {
		return k, nil, fmt.Errorf("unknown kind %q", s.Kind)
	}
	v := k.New()
	if err := json.Unmarshal(s.Args.JSON(), v); err != nil {
		return k, nil, err
	}
	if k.Secrets != nil {
		k.Secrets(v, func(string) string { return steps.Hidden })
	}
	return k, v, nil
}

// step renders one step: its arguments without secrets, and the file that holds its content, if any.
func (t *tree) step(s steps.Spec) (args json.RawMessage, file string, err error) {
	k, v, err := shown(s)
	if err != nil {
		return nil, "", err
	}
	if k.Render != nil {
		r, err := k.Render(v, steps.RenderFor{OS: t.node.OS, Node: t.node.Name, Step: s.ID})
		if err == nil {
			file, err = t.rendering(s, v, r)
		}
		if err != nil {
			return nil, "", err
		}
	}
	args, err = encode(v, "")
	return args, file, err
}

// rendering adds what a step is rendered as, and returns the file that holds it alone.
func (t *tree) rendering(s steps.Spec, args any, r steps.Rendering) (file string, err error) {
	switch {
	case r.Path != "":
		return t.host(s.ID, r.Path, []byte(steps.ShowRefs(r.Content))), nil
	case r.List != "":
		t.add(r.List, r.Item)
		return "", nil
	case r.Service != "":
		file = t.place("services", name(steps.ShowRefs(r.Service)), s.ID, ".json")
		return file, t.json(file, args)
	case r.Manifest != "":
		return t.text(s.ID, r.Manifest), nil
	case r.Node != nil:
		t.merge("labels", r.Node.Labels)
		t.merge("annotations", r.Node.Annotations)
		t.taints = append(t.taints, r.Node.Taints...)
		return "cluster/" + nodeFile + ".yaml", nil
	case len(r.Objects) > 0:
		return t.objects(name(r.Name), s.ID, r.Objects...)
	}
	return "", nil
}

// host adds a file of the machine below files/ and returns its path in the node's folder.
func (t *tree) host(id, path string, data []byte) string {
	shown := steps.ShowRefs(path)
	var parts []string
	for _, p := range strings.FieldsFunc(shown, func(r rune) bool {
		return r == '/' || r == '\\' && t.node.OS == "windows"
	}) {
		parts = append(parts, name(strings.TrimSuffix(p, ":")))
	}
	p := t.place("files", strings.Join(parts, "/"), id, "")
	t.put(p, data)
	return p
}

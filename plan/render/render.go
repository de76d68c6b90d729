// Package render shows what each node of a compiled plan would get as files: every file, service definition,
// registry value, firewall rule and cluster object. It is pure: it connects to no host and no cluster, and
// the same plan gives the same files.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// File is one rendered file.
type File struct {
	Path string // '/'-separated, relative, begins with the node's name or, for shared files, with _manifests
	Data []byte
}

// Hidden replaces a secret.
const Hidden = steps.Hidden

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

// tree collects the files of one node.
type tree struct {
	node   plan.Node
	files  []File
	taken  map[string]bool
	lists  map[string][]any // arrays by file name
	order  []string         // of lists
	meta   map[string]any   // metadata of the Node object
	spec   map[string]any
	shared map[string]string // manifests of the plan, by name
}

// sharedFile is the file of a manifest of the plan. No Node name begins with "_".
func sharedFile(name string) string { return "_manifests/" + name + ".yaml" }

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
			meta: map[string]any{"name": n.Name}, spec: map[string]any{}}
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

// step renders one step: its arguments without secrets, and the file that holds its content, if any.
func (t *tree) step(s steps.Spec) (args json.RawMessage, file string, err error) {
	k, ok := kinds.Lookup(s.Kind)
	if !ok {
		return nil, "", fmt.Errorf("unknown kind %q", s.Kind)
	}
	v := k.New()
	if err := json.Unmarshal(s.Args, v); err != nil {
		return nil, "", err
	}
	if k.Secrets != nil {
		k.Secrets(v, func(string) string { return Hidden })
	}
	switch a := v.(type) {
	case *kinds.File:
		if a.Absent {
			t.add("absent.json", a.Path)
			break
		}
		if a.Sensitive {
			a.Content = Hidden + "\n"
		}
		file = t.host(s.ID, a.Path, []byte(steps.ShowRefs(a.Content)))
		a.Content = ""
	case *kinds.Kubeconfig:
		b, err := kubeconfig(a)
		if err != nil {
			return nil, "", err
		}
		file = t.host(s.ID, a.Path, b)
	case *kinds.KubeadmJoin:
		shown := *a
		shown.Token = steps.ShowRefs(a.Token)
		path, text, err := shown.ConfigFile(t.node.OS, t.node.Name)
		if err != nil {
			return nil, "", err
		}
		file = t.host(s.ID, path, text)
	case *kinds.Service:
		a.Environment = steps.ShowEnvironment(a.Environment, a.SensitiveEnvironment)
		file = t.place("services", name(steps.ShowRefs(a.Name)), s.ID, ".json")
		if err := t.json(file, a); err != nil {
			return nil, "", err
		}
	case *kinds.Registry:
		t.add("registry.json", a)
	case *kinds.FirewallRule:
		t.add("firewall.json", a)
	case *kinds.MachineEnv:
		a.Value = steps.ShowCredentials(a.Value)
		t.add("environment.json", a)
	case *kinds.Directory:
		t.add("directories.json", a)
	case *kinds.Archive:
		t.add("artifacts.json", a)
	case *kinds.Binary:
		t.add("artifacts.json", a)
	default:
		file, err = t.cluster(s, v)
		if err != nil {
			return nil, "", err
		}
	}
	args, err = encode(v, "")
	return args, file, err
}

// add appends v to the array in the file name.
func (t *tree) add(file string, v any) {
	if t.lists[file] == nil {
		t.order = append(t.order, file)
	}
	t.lists[file] = append(t.lists[file], v)
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

// place returns dir/base+ext, with the step's id added if another step already uses it. Names that differ
// only by case are the same, as on Windows.
func (t *tree) place(dir, base, id, ext string) string {
	p := dir + "/" + base + ext
	if t.taken[strings.ToLower(p)] {
		p = dir + "/" + base + "." + id + ext
	}
	t.taken[strings.ToLower(p)] = true
	return p
}

func (t *tree) put(path string, data []byte) {
	t.files = append(t.files, File{Path: name(t.node.Name) + "/" + path, Data: data})
}

func (t *tree) json(path string, v any) error {
	b, err := encode(v, "  ")
	if err == nil {
		t.put(path, append(b, '\n'))
	}
	return err
}

// encode returns JSON without HTML escapes, with references shown.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	out := []byte(showJSON(b.String()))
	if indent == "" {
		return bytes.TrimSpace(out), nil
	}
	b.Reset()
	if err := json.Indent(&b, bytes.TrimSpace(out), "", indent); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// showJSON is steps.ShowRefs for encoded JSON, in which NUL is written \u0000.
func showJSON(s string) string {
	return steps.ShowRefs(strings.ReplaceAll(s, `\u0000`, "\x00"))
}

// name turns s into a path element that is valid on every OS.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, s)
	if strings.Trim(s, ".") == "" {
		return "_" + s
	}
	return s
}

package render

import (
	"bytes"
	"encoding/json"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
)

// File is one rendered file.
type File struct {
	Path string // '/'-separated, relative, begins with the node's name or, for shared files, with _manifests
	Data []byte
}

// tree collects the files of one node.
type tree struct {
	node   plan.Node
	files  []File
	taken  map[string]bool
	lists  map[string][]any  // arrays by file name
	order  []string          // of lists
	meta   map[string]any    // metadata of the Node object
	taints []any             // of the Node object
	shared map[string]string // manifests of the plan, by name
}

// sharedFile is the file of a manifest of the plan. No Node name begins with "_".
func sharedFile(name string) string { return "_manifests/" + name + ".yaml" }

// add appends v to the array in the file name.
func (t *tree) add(file string, v any) {
	if t.lists[file] == nil {
		t.order = append(t.order, file)
	}
	t.lists[file] = append(t.lists[file], v)
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

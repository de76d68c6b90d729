package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Manifest is one object of a cluster as it is wanted: the fields that it names are
// nodejoin's, all others are left to whoever sets them (server-side apply).
type Manifest struct {
	APIVersion, Kind string
	Namespace        string // "" of objects without one, and for "default"
	Name             string
	Object           map[string]any // as JSON decodes it, the above included

	// Existing: the object is somebody else's, and only these fields of it are
	// nodejoin's. One that is not there is not made.
	Existing bool
	// Force takes over fields that another manager has set otherwise.
	Force bool
}

func (m Manifest) String() string {
	if m.Namespace != "" {
		return m.Kind + " " + m.Namespace + "/" + m.Name
	}
	return m.Kind + " " + m.Name
}

// ManifestState is how the object of a Manifest is found.
type ManifestState struct {
	Exists bool
	// Differs are the fields that an apply would change, in the order of their paths;
	// nil where the object is not there.
	Differs []FieldDiff
	// Waits is why the kinds that the object defines cannot be used yet; "" = they can, or
	// it defines none.
	Waits string
}

// ObjectKind is a kind of object.
type ObjectKind struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
}

// Defines gives the kinds that a CustomResourceDefinition makes the API server serve; any
// other object defines none.
func (m Manifest) Defines() []ObjectKind {
	if m.Kind != "CustomResourceDefinition" || !strings.HasPrefix(m.APIVersion, "apiextensions.k8s.io/") {
		return nil
	}
	spec, _ := m.Object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	versions, _ := spec["versions"].([]any)
	var out []ObjectKind
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true && name != "" {
			out = append(out, ObjectKind{APIVersion: group + "/" + name, Kind: kind})
		}
	}
	return out
}

// FieldDiff is a field that has another value than it is to have. A value is a text as
// it is, anything else as JSON; "" = the field is not there.
type FieldDiff struct{ Path, Have, Want string }

// OwnershipError: fields of an object were set otherwise by other managers, so that
// they are not nodejoin's to change.
type OwnershipError struct {
	Object string
	Fields []OwnedField
}

// OwnedField is a field and the manager that set it (metadata.managedFields).
type OwnedField struct{ Path, Manager string }

func (e *OwnershipError) Error() string {
	var list []string
	for _, f := range e.Fields {
		list = append(list, fmt.Sprintf("%s is set by %q", f.Path, f.Manager))
	}
	return e.Object + ": " + strings.Join(list, ", ")
}

// ErrNotServed: the API server has no such kind of object.
var ErrNotServed = errors.New("the API server does not serve it")

// ParseManifests reads the objects of a file: documents of YAML, or JSON. Empty
// documents do not count, and a List is its items. Keys that are there twice, objects
// without apiVersion, kind or name, and Secrets, whose values would be shown, are refused.
func ParseManifests(text string) ([]Manifest, error) {
	var out []Manifest
	for i, doc := range documents(text) {
		raw, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			text := strings.Join(strings.Fields(err.Error()), " ") // several lines
			return nil, fmt.Errorf("document %d: %s", i+1, strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors: "))
		}
		if bytes.Equal(raw, []byte("null")) {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, fmt.Errorf("document %d is no object", i+1)
		}
		list, err := manifests(object)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

// documents cuts a text where a line begins with three dashes, as YAML does. What
// follows the dashes on their line is part of the document.
func documents(text string) []string {
	var out []string
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, cut := strings.CutPrefix(line, "---")
		if cut && (strings.TrimSpace(rest) == "" || rest[0] == ' ' || rest[0] == '\t') {
			out = append(out, b.String())
			b.Reset()
			line = rest
		}
		b.WriteString(line)
	}
	return append(out, b.String())
}

func manifests(object map[string]any) ([]Manifest, error) {
	kind, _ := object["kind"].(string)
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		var out []Manifest
		for i, item := range items {
			o, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("items[%d] is no object", i)
			}
			list, err := manifests(o)
			if err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			out = append(out, list...)
		}
		return out, nil
	}
	m := Manifest{Kind: kind, Object: object}
	m.APIVersion, _ = object["apiVersion"].(string)
	meta, _ := object["metadata"].(map[string]any)
	m.Name, _ = meta["name"].(string)
	m.Namespace, _ = meta["namespace"].(string)
	switch {
	case m.APIVersion == "" || m.Kind == "" || m.Name == "":
		return nil, errors.New("an object needs apiVersion, kind and metadata.name")
	case strings.ContainsAny(m.APIVersion+m.Name+m.Namespace, "?#%\\ \t\n") || strings.Count(m.APIVersion, "/") > 1 || strings.ContainsAny(m.Name+m.Namespace, "/"):
		return nil, fmt.Errorf("%q of %q is no name of an object", m.Name, m.APIVersion)
	case m.Kind == "Secret" && m.APIVersion == "v1":
		return nil, fmt.Errorf("%s: Secrets are not applied from a plan, where their values would be kept and shown", m)
	}
	return []Manifest{m}, nil
}

// DiffFields compares what an object has with what it is to have, field by field, in
// the order of their paths.
func DiffFields(have, want any) []FieldDiff {
	var out []FieldDiff
	diffFields("", have, want, &out)
	return out
}

func diffFields(path string, have, want any, out *[]FieldDiff) {
	if reflect.DeepEqual(have, want) {
		return
	}
	if h, ok := have.(map[string]any); ok {
		if w, ok := want.(map[string]any); ok {
			var keys []string
			for k := range h {
				keys = append(keys, k)
			}
			for k := range w {
				if _, both := h[k]; !both {
					keys = append(keys, k)
				}
			}
			slices.Sort(keys)
			for _, k := range keys {
				diffFields(FieldPath(path, k), h[k], w[k], out)
			}
			return
		}
	}
	h, isList := have.([]any)
	if w, ok := want.([]any); ok && isList && len(h) == len(w) {
		for i := range h {
			diffFields(path+"["+strconv.Itoa(i)+"]", h[i], w[i], out)
		}
		return
	}
	*out = append(*out, FieldDiff{path, fieldText(have), fieldText(want)})
}

// FieldPath is the path of a field below another: spec.template, metadata.labels["a/b"].
func FieldPath(path, key string) string {
	if strings.ContainsAny(key, "./[]\" ") || key == "" {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func fieldText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

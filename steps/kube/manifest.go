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

// Manifest is the wanted state of one object of a cluster: the fields that it names are nodejoin's, all
// others are left to whoever sets them (server-side apply).
type Manifest struct {
	APIVersion, Kind string
	Namespace        string // "" of objects without one, and for "default"
	Name             string
	Object           map[string]any // as JSON decodes it, the above included

	// Existing: the object belongs to somebody else, and only these fields of it are nodejoin's. It is not
	// created if absent.
	Existing bool
	// Force takes over fields that another manager has set differently.
	Force bool
}

func (m Manifest) String() string {
	if m.Namespace != "" {
		return m.Kind + " " + m.Namespace + "/" + m.Name
	}
	return m.Kind + " " + m.Name
}

// ManifestState is the observed state of the object of a Manifest.
type ManifestState struct {
	Exists bool
	// Differs are the fields that an apply would change, sorted by path; nil if the object is absent.
	Differs []FieldDiff
	Set     string // id of the ApplySet that it is a member of; "" = of none
	// Waits is why the kinds that the object defines cannot be used yet; "" = they can, or it defines none.
	Waits string
}

// ObjectKind is a kind of object.
type ObjectKind struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
}

// Defines returns the kinds that a CustomResourceDefinition makes the API server serve; other objects define
// none.
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

// FieldDiff is a field whose value differs from the wanted one. A text value is given as it is, anything else
// as JSON; "" = the field is absent.
type FieldDiff struct{ Path, Have, Want string }

// OwnershipError says that other managers set fields of an object to other values, so nodejoin may not change them.
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

// ErrNotServed says that the API server does not know the kind of an object.
var ErrNotServed = errors.New("the API server does not serve this kind of object")

// ParseManifests parses the objects of a file: YAML documents, or JSON. Empty documents are skipped, and a
// List stands for its items. Duplicate keys, objects without apiVersion, kind or name, and Secrets, whose
// values would be shown, are errors.
func ParseManifests(text string) ([]Manifest, error) {
	var out []Manifest
	for i, doc := range documents(text) {
		raw, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			text := strings.Join(strings.Fields(err.Error()), " ") // several lines
			return nil, fmt.Errorf("document %d: %s", i+1,
				strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors: "))
		}
		if bytes.Equal(raw, []byte("null")) {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, fmt.Errorf("document %d is not an object", i+1)
		}
		list, err := manifests(object)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

// documents splits a text at lines that begin with three dashes, as YAML does. The rest of such a line is
// part of the document.
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
				return nil, fmt.Errorf("items[%d] is not an object", i)
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
	case strings.ContainsAny(m.APIVersion+m.Name+m.Namespace, "?#%\\ \t\n") || strings.Count(m.APIVersion, "/") > 1 ||
		strings.ContainsAny(m.Name+m.Namespace, "/"):
		return nil, fmt.Errorf("%q of %q is not a valid object name", m.Name, m.APIVersion)
	case m.Kind == "Secret" && m.APIVersion == "v1":
		return nil, fmt.Errorf("%s: a plan cannot contain Secrets, since their values would be stored and shown", m)
	}
	return []Manifest{m}, nil
}

// DiffFields compares an object with its wanted state, field by field, sorted by path.
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

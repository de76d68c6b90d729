package check

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of what is read: a text that is more is none for people.
const (
	maxObjects = 20_000
	maxNested  = 20 // Lists in Lists
)

// File is a text to be checked.
type File struct {
	Name string
	Data []byte
}

// value is a value in a file with its position. The zero value is absent.
type value struct {
	node *yaml.Node
	key  *yaml.Node // whose value it is; nil for elements of lists and documents
	path string
}

func (v value) there() bool { return v.node != nil }

// position is that of the key, or of the value itself.
func (v value) position() (line, column int) {
	switch {
	case v.key != nil:
		return v.key.Line, v.key.Column
	case v.node != nil:
		return v.node.Line, v.node.Column
	}
	return 1, 1
}

// resolved follows an alias.
func resolved(n *yaml.Node) *yaml.Node {
	for range 10 { // nobody writes an alias of an alias
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// under is the path of a key.
func (v value) under(key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return v.path + "[" + strconv.Quote(key) + "]"
	case v.path == "":
		return key
	}
	return v.path + "." + key
}

// get returns the value of a key, from a merged mapping (<<) if there is no other.
func (v value) get(key string) value {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return value{}
	}
	path := v.under(key)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if k := v.node.Content[i]; k.Value == key && k.Kind == yaml.ScalarNode {
			n := resolved(v.node.Content[i+1])
			if n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
				return value{}
			}
			return value{n, k, path}
		}
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if v.node.Content[i].Tag == "!!merge" {
			if n := resolved(v.node.Content[i+1]); n != nil && n.Kind == yaml.MappingNode && n != v.node {
				if got := (value{n, nil, v.path}).own(key); got.there() {
					return got
				}
			}
		}
	}
	return value{}
}

// own is get without merged mappings.
func (v value) own(key string) value {
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if v.node.Content[i].Value == key {
			return value{resolved(v.node.Content[i+1]), v.node.Content[i], strings.TrimPrefix(v.path+"."+key, ".")}
		}
	}
	return value{}
}

// at follows keys.
func (v value) at(keys ...string) value {
	for _, k := range keys {
		v = v.get(k)
	}
	return v
}

func (v value) list() []value {
	if v.node == nil || v.node.Kind != yaml.SequenceNode {
		return nil
	}
	var out []value
	for i, n := range v.node.Content {
		if n = resolved(n); n != nil {
			out = append(out, value{n, nil, v.path + "[" + strconv.Itoa(i) + "]"})
		}
	}
	return out
}

func (v value) str() string {
	if v.node == nil || v.node.Kind != yaml.ScalarNode {
		return ""
	}
	return v.node.Value
}

func (v value) yes() bool { return v.node != nil && v.node.Tag == "!!bool" && v.node.Value == "true" }
func (v value) no() bool  { return v.node != nil && v.node.Tag == "!!bool" && v.node.Value == "false" }

// empty reports that it is an empty mapping or list.
func (v value) empty() bool {
	return v.node != nil && v.node.Kind != yaml.ScalarNode && len(v.node.Content) == 0
}

// pairs are the keys and values of a mapping of texts, in order.
func (v value) pairs() []pair {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return nil
	}
	var out []pair
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i].Value
		out = append(out, pair{key, v.get(key)})
	}
	return out
}

type pair struct {
	key string
	value
}

// object is an object of a file.
type object struct {
	value
	file string
}

func (o object) kind() string { return o.get("kind").str() }

// String names it: "Deployment default/web".
func (o object) String() string {
	meta := o.get("metadata")
	name, namespace := meta.get("name").str(), meta.get("namespace").str()
	if name == "" {
		name = meta.get("generateName").str()
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(o.kind() + " " + name)
}

// podSpec returns where an object holds the specification of its pods.
func (o object) podSpec() (value, bool) {
	var spec value
	switch o.kind() {
	case "Pod":
		spec = o.get("spec")
	case "PodTemplate":
		spec = o.at("template", "spec")
	case "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "ReplicationController", "Job":
		spec = o.at("spec", "template", "spec")
	case "CronJob":
		spec = o.at("spec", "jobTemplate", "spec", "template", "spec")
	default: // a custom workload (Argo Rollout, Knative Service)
		if s := o.at("spec", "template", "spec"); s.get("containers").list() != nil {
			spec = s
		}
	}
	return spec, spec.there()
}

// containers returns all containers of a pod.
func containers(spec value) []value {
	return slices.Concat(spec.get("initContainers").list(), spec.get("containers").list(),
		spec.get("ephemeralContainers").list())
}

// read returns the objects of a file, including those in Lists.
func read(f File) ([]object, error) {
	var out []object
	d := yaml.NewDecoder(bytes.NewReader(f.Data))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
			if strings.HasSuffix(text, "did not find expected key") {
				text += " (a line from there on is indented otherwise than its neighbours)"
			}
			return nil, fmt.Errorf("%s is not YAML: %s", f.Name, text)
		}
		if len(doc.Content) == 0 {
			continue
		}
		n := resolved(doc.Content[0])
		if n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
			continue
		}
		if n.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s:%d,%d is not an object", f.Name, n.Line, n.Column)
		}
		if out, err = objects(out, object{value{node: n}, f.Name}, 0); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
}

func objects(out []object, o object, depth int) ([]object, error) {
	if len(out) >= maxObjects || depth > maxNested {
		return nil, fmt.Errorf("it contains more than %d objects, or Lists in Lists", maxObjects)
	}
	items := o.get("items")
	if !strings.HasSuffix(o.kind(), "List") || !items.there() {
		return append(out, o), nil
	}
	var err error
	for _, item := range items.list() {
		if out, err = objects(out, object{value{node: item.node, path: ""}, o.file}, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

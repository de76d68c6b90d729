package kube

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ApplySet is the set of the objects that a plan makes, by the convention of Kubernetes for objects that belong
// together (KEP-3659): a parent object says which kinds and namespaces its members have, and each member
// carries the set's id. So what a plan no longer names is found without a state file.
type ApplySet struct{ Plan string } // name of the plan's cluster block

// PartOf is the label of a member; its value is the set's id.
const PartOf = "applyset.kubernetes.io/part-of"

// Labels and annotations of the parent (KEP-3659, "Specification").
const (
	setID         = "applyset.kubernetes.io/id"
	setTooling    = "applyset.kubernetes.io/tooling" // NAME/VERSION; a tool leaves sets of other tools alone
	setKinds      = "applyset.kubernetes.io/contains-group-kinds"
	setNamespaces = "applyset.kubernetes.io/additional-namespaces" // besides that of the parent
	setNamespace  = "kube-system"
	setTool       = "nodejoin"
	setFormer     = "nodejoin.dev/renamed-from" // former names of the plan whose sets are not gone yet
)

// parentName matches names that a ConfigMap may have behind the prefix.
var parentName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

func (s ApplySet) name() string {
	if parentName.MatchString(s.Plan) && len(s.Plan) < 200 {
		return "nodejoin-" + s.Plan
	}
	sum := sha256.Sum256([]byte(s.Plan))
	return "nodejoin-" + hex.EncodeToString(sum[:8])
}

// ID is the id of the set: the hash of the parent's name, namespace, kind and group.
func (s ApplySet) ID() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{s.name(), setNamespace, "ConfigMap", ""}, ".")))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// Parent is the set's parent, for members of these kinds (GroupKind) in these namespaces; former are SetState.Former.
func (s ApplySet) Parent(version string, kinds, namespaces []string, former ...string) Manifest {
	unique := func(list []string) string {
		list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" || s == setNamespace })
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ",")
	}
	annotations := map[string]any{setTooling: setTool + "/" + version, setKinds: unique(kinds)}
	if others := unique(namespaces); others != "" {
		annotations[setNamespaces] = others
	}
	if len(former) > 0 {
		annotations[setFormer] = strings.Join(former, "\n") // a name may hold any other character
	}
	m := Manifest{APIVersion: "v1", Kind: "ConfigMap", Namespace: setNamespace, Name: s.name(), Force: true}
	m.Object = map[string]any{"apiVersion": m.APIVersion, "kind": m.Kind, "metadata": map[string]any{"name": m.Name,
		"namespace": m.Namespace, "labels": map[string]any{setID: s.ID()}, "annotations": annotations}}
	return m
}

// SetState is a set as its parent and the labels of its members say.
type SetState struct {
	Exists bool
	// Foreign: another tool made it.
	Foreign           bool
	Kinds, Namespaces []string // of its members, that of the parent included
	Members           []Member // by kind, namespace and name
	// Former are the names that the plan had, where the renaming has not come to its end.
	Former []string
}

// SetStateOf reads the annotations of the parent.
func SetStateOf(annotations map[string]any) SetState {
	text := func(name string) string { s, _ := annotations[name].(string); return s }
	cut := func(s, by string) []string {
		return slices.DeleteFunc(strings.Split(s, by), func(s string) bool { return s == "" })
	}
	split := func(s string) []string { return cut(s, ",") }
	return SetState{Exists: true, Foreign: !strings.HasPrefix(text(setTooling), setTool+"/"),
		Kinds: split(text(setKinds)), Namespaces: append(split(text(setNamespaces)), setNamespace),
		Former: cut(text(setFormer), "\n")}
}

// Says reports whether the parent is there and says the same as this one.
func (s SetState) Says(parent Manifest) bool {
	meta, _ := parent.Object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	next := SetStateOf(annotations)
	return s.Exists && !s.Foreign && slices.Equal(s.Kinds, next.Kinds) &&
		slices.Equal(s.Namespaces, next.Namespaces) && slices.Equal(s.Former, next.Former)
}

// Holds reports whether an object of that kind and namespace ("" = without one) may be a member.
func (s SetState) Holds(groupKind, namespace string) bool {
	return slices.Contains(s.Kinds, groupKind) && (namespace == "" || slices.Contains(s.Namespaces, namespace))
}

// Member is an object of a set; its Object is nil.
type Member struct {
	Manifest
	UID    string
	Others []string // managers besides nodejoin that have set fields of it, except for its status
}

// GroupKind is the kind with its group, "DaemonSet.apps"; of the core group the kind alone.
func (m Manifest) GroupKind() string {
	group, _, found := strings.Cut(m.APIVersion, "/")
	if !found {
		return m.Kind
	}
	return m.Kind + "." + group
}

// Space is the namespace of an object that has one.
func (m Manifest) Space() string {
	if m.Namespace == "" {
		return "default"
	}
	return m.Namespace
}

// Is reports whether two manifests are about one object.
func (m Manifest) Is(o Manifest) bool {
	return m.GroupKind() == o.GroupKind() && m.Space() == o.Space() && m.Name == o.Name
}

// In returns the manifest of a member of the set with that id; "" = of none.
func (m Manifest) In(set string) Manifest {
	if set == "" {
		return m
	}
	below := func(o map[string]any, key string) map[string]any {
		inner, _ := o[key].(map[string]any)
		if inner = maps.Clone(inner); inner == nil {
			inner = map[string]any{}
		}
		o[key] = inner
		return inner
	}
	m.Object = maps.Clone(m.Object)
	below(below(m.Object, "metadata"), "labels")[PartOf] = set
	return m
}

// SetOf is the id of the set that an object is a member of; "" = of none.
func SetOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	id, _ := labels[PartOf].(string)
	return id
}

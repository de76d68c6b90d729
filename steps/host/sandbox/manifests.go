package sandbox

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"nodejoin/steps/kube"
)

// manager is the name under which nodejoin sets fields.
const manager = "nodejoin"

func objectKey(m kube.Manifest) string {
	group, _, found := strings.Cut(m.APIVersion, "/")
	if !found {
		group = ""
	}
	return strings.Join([]string{group, m.Kind, m.Namespace, m.Name}, "/")
}

// Manifest reports what an apply would change.
func (k *Cluster) Manifest(ctx context.Context, want kube.Manifest) (kube.ManifestState, error) {
	var out kube.ManifestState
	err := k.ask(ctx, "read", want.String(), func(s *clusterState) error {
		have, ok := s.Objects.get(objectKey(want))
		if !ok {
			return nil
		}
		out.Exists, out.Set = true, kube.SetOf(have.Fields)
		then, err := have.applied(want, manager)
		if err != nil {
			return err
		}
		out.Differs = kube.DiffFields(have.Fields, then.Fields)
		if len(out.Differs) == 0 && !reflect.DeepEqual(have.Managers, then.Managers) {
			out.Differs = []kube.FieldDiff{{Path: "metadata.managedFields",
				Have: "nodejoin owns other fields than these", Want: "nodejoin owns these fields"}}
		}
		return nil
	})
	return out, err
}

// ApplyManifest sets the fields of want on the object.
func (k *Cluster) ApplyManifest(ctx context.Context, want kube.Manifest) error {
	return k.ApplyManifestAs(ctx, want, manager)
}

// ApplyManifestAs is ApplyManifest with another field manager than nodejoin.
func (k *Cluster) ApplyManifestAs(ctx context.Context, want kube.Manifest, manager string) error {
	return k.tell(ctx, "apply", want.String(), func(s *clusterState) error {
		have, ok := s.Objects.edit(objectKey(want))
		if !ok && want.Existing {
			return nil
		}
		then, err := have.applied(want, manager)
		if err != nil {
			return err
		}
		s.Objects.set(objectKey(want), *then)
		return nil
	})
}

// ApplySet reads the set and lists its members.
func (k *Cluster) ApplySet(ctx context.Context, set kube.ApplySet) (kube.SetState, error) {
	var out kube.SetState
	parent := set.Parent("", nil, nil)
	err := k.ask(ctx, "read set", parent.Name, func(s *clusterState) error {
		have, ok := s.Objects.get(objectKey(parent))
		if !ok {
			return nil
		}
		out = kube.SetStateOf(below(below(have.Fields, "metadata"), "annotations"))
		for _, o := range s.Objects.all() {
			m := kube.Member{Manifest: manifestOf(o.Fields)}
			if kube.SetOf(o.Fields) != set.ID() || !out.Holds(m.GroupKind(), m.Namespace) {
				continue
			}
			for _, by := range o.Managers {
				m.Others = append(m.Others, slices.DeleteFunc(slices.Clone(by), func(s string) bool { return s == manager })...)
			}
			slices.Sort(m.Others)
			m.Others = slices.Compact(m.Others)
			out.Members = append(out.Members, m)
		}
		return nil
	})
	return out, err
}

// DeleteObject deletes an object.
func (k *Cluster) DeleteObject(ctx context.Context, m kube.Member) error {
	return k.tell(ctx, "delete", m.String(), func(s *clusterState) error {
		s.Objects.remove(objectKey(m.Manifest))
		return nil
	})
}

func below(o map[string]any, key string) map[string]any {
	inner, _ := o[key].(map[string]any)
	return inner
}

// manifestOf names an object.
func manifestOf(o map[string]any) (m kube.Manifest) {
	meta := below(o, "metadata")
	m.APIVersion, _ = o["apiVersion"].(string)
	m.Kind, _ = o["kind"].(string)
	m.Namespace, _ = meta["namespace"].(string)
	m.Name, _ = meta["name"].(string)
	return m
}

// applied returns the object after an apply. o itself does not change.
func (o *object) applied(want kube.Manifest, manager string) (*object, error) {
	out := &object{Fields: map[string]any{}, Managers: map[string][]string{}}
	fields := map[string]any{}
	leaves(nil, o.Fields, func(path []string, v any) { fields[pointer(path)] = v })
	mine := map[string]bool{}
	var owned []kube.OwnedField
	maps.Copy(out.Managers, o.Managers)
	leaves(nil, want.Object, func(path []string, v any) {
		p := pointer(path)
		mine[p] = true
		others := slices.DeleteFunc(slices.Clone(o.Managers[p]), func(m string) bool { return m == manager })
		if have, there := fields[p]; there && !same(have, v) {
			if len(others) > 0 && !want.Force {
				owned = append(owned, kube.OwnedField{Path: words(path), Manager: others[0]})
				return
			}
			others = nil
		}
		fields[p] = v
		out.Managers[p] = append(others, manager)
		slices.Sort(out.Managers[p])
	})
	if len(owned) > 0 {
		slices.SortFunc(owned, func(a, b kube.OwnedField) int { return strings.Compare(a.Path, b.Path) })
		return nil, &kube.OwnershipError{Object: want.String(), Fields: owned}
	}
	for p, m := range o.Managers {
		if mine[p] || !slices.Contains(m, manager) {
			continue
		}
		// nodejoin set it and no longer wants it.
		if out.Managers[p] = slices.DeleteFunc(slices.Clone(m),
			func(m string) bool { return m == manager }); len(out.Managers[p]) == 0 {
			delete(out.Managers, p)
			delete(fields, p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(fields)) { // so that an empty map comes before its contents
		v := fields[p]
		if m, ok := v.(map[string]any); ok && len(m) == 0 {
			v = map[string]any{}
		}
		set(out.Fields, strings.Split(p, "/")[1:], v)
	}
	return out, nil
}

// leaves calls f for each field that is not a map with fields of its own.
func leaves(path []string, v map[string]any, f func([]string, any)) {
	for k, v := range v {
		at := append(slices.Clone(path), k)
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			leaves(at, m, f)
			continue
		}
		f(at, v)
	}
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

func pointer(path []string) string {
	var b strings.Builder
	for _, k := range path {
		b.WriteString("/" + escape.Replace(k))
	}
	return b.String()
}

func words(path []string) string {
	out := ""
	for _, k := range path {
		out = kube.FieldPath(out, k)
	}
	return out
}

func set(m map[string]any, path []string, v any) {
	for ; len(path) > 1; path = path[1:] {
		key := unescape.Replace(path[0])
		inner, ok := m[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			m[key] = inner
		}
		m = inner
	}
	m[unescape.Replace(path[0])] = v
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodejoin/steps/kube"
)

// applyTries bounds how often an apply is sent again after a concurrent write to the object: many nodes may
// apply one manifest at once.
const applyTries = 5

// Manifest compares the object with the result of a dry run of the apply: the API server itself says what its
// defaults are and who owns each field.
func (k *client) Manifest(ctx context.Context, want kube.Manifest) (kube.ManifestState, error) {
	question, err := questionOf(want)
	if err != nil {
		return kube.ManifestState{}, err
	}
	return shared(ctx, &k.asks, question, func() (kube.ManifestState, error) { return k.manifest(ctx, want) })
}

func (k *client) manifest(ctx context.Context, want kube.Manifest) (kube.ManifestState, error) {
	at, err := k.locate(ctx, want)
	if err != nil {
		return kube.ManifestState{}, err
	}
	have, err := k.object(ctx, at, want)
	if absent := errors.Is(err, fs.ErrNotExist); absent && want.Existing {
		return kube.ManifestState{}, nil
	} else if absent {
		// Report rejections now. The namespace may be created by an earlier object.
		if _, err := k.patch(ctx, at, want, nil, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return kube.ManifestState{}, err
		}
		return kube.ManifestState{}, nil
	}
	if err != nil {
		return kube.ManifestState{}, err
	}
	then, err := k.patch(ctx, at, want, have, true)
	if err != nil {
		return kube.ManifestState{}, err
	}
	waits, err := k.waits(ctx, want, have)
	differs := k.differs(want, have, then)
	return kube.ManifestState{Exists: true, Differs: differs, Set: kube.SetOf(have), Waits: waits}, err
}

// waits says why the kinds of a definition, observed as have, are not available yet: it is established some
// time after its creation (Kubernetes documentation, "Extend the Kubernetes API with
// CustomResourceDefinitions"), and served after that.
func (k *client) waits(ctx context.Context, want kube.Manifest, have map[string]any) (string, error) {
	kinds := want.Defines()
	if len(kinds) == 0 {
		return "", nil
	}
	status, _ := have["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	established, why := false, ""
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		switch {
		case c["type"] == "Established" && c["status"] == "True":
			established = true
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			why = fmt.Sprintf(": %v", c["message"])
		}
	}
	if !established {
		return "it is not established yet" + why, nil
	}
	for _, o := range kinds {
		prefix := "/apis/" + o.APIVersion
		r, err := k.resource(ctx, prefix, o.Kind)
		if err == nil && apierrors.IsNotFound(k.any.Get().AbsPath(prefix+"/"+r.Name).Param("limit", "1").Do(ctx).Error()) {
			err = fs.ErrNotExist // it is listed, but requests are not answered yet
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s of %s is not served yet", o.Kind, o.APIVersion), nil
		} else if err != nil {
			return "", err
		}
	}
	return "", nil
}

// ApplyManifest sends the apply.
func (k *client) ApplyManifest(ctx context.Context, want kube.Manifest) error {
	at, err := k.locate(ctx, want)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		var have map[string]any
		if want.Existing {
			have, err = k.object(ctx, at, want)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		_, err = k.patch(ctx, at, want, have, false)
		if try == applyTries || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// object reads the object as it is.
func (k *client) object(ctx context.Context, at string, want kube.Manifest) (map[string]any, error) {
	return k.fetch(ctx, "reading the "+want.String(), func() ([]byte, error) {
		r := k.any.Get().AbsPath(at).Do(ctx)
		body, _ := r.Raw()
		return body, r.Error()
	})
}

// patch applies, or returns what an apply would result in. With Existing, the object must be have: its UID
// keeps the API server from creating another.
func (k *client) patch(ctx context.Context, at string, want kube.Manifest, have map[string]any,
	dry bool) (map[string]any, error) {
	object := want.Object
	if want.Existing {
		object = maps.Clone(object)
		meta, _ := object["metadata"].(map[string]any)
		meta = maps.Clone(meta)
		meta["uid"] = metaOf(have)["uid"]
		object["metadata"] = meta
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	what := "applying the " + want.String()
	return k.fetch(ctx, what, func() ([]byte, error) {
		q := k.any.Patch(types.ApplyPatchType).AbsPath(at).Body(body).Param("fieldManager", k.manager).
			// the latter since 1.25, before it is not looked at
			Param("force", strconv.FormatBool(want.Force)).Param("fieldValidation", "Strict")
		if dry {
			q = q.Param("dryRun", "All")
		}
		r := q.Do(ctx)
		body, _ := r.Raw()
		err := r.Error()
		if owned := conflicts(want, err); owned != nil {
			return nil, owned
		}
		return body, err
	})
}

func (k *client) fetch(ctx context.Context, what string, ask func() ([]byte, error)) (map[string]any, error) {
	body, err := ask()
	var owned *kube.OwnershipError
	if errors.As(err, &owned) {
		return nil, err
	}
	if err != nil {
		return nil, k.fail(ctx, what, err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, fmt.Errorf("%s: %s responds, but not like an API server: %w", what, k.server, err)
	}
	return out, nil
}

// byManager is how the API server names the other manager, for which it has no field
// (sigs.k8s.io/structured-merge-diff merge/conflict.go, apimachinery
// pkg/util/managedfields/internal/conflict.go).
var byManager = regexp.MustCompile(`conflict with ("(?:[^"\\]|\\.)*")`)

// conflicts returns the fields of others because of which an apply was rejected; nil if it was rejected for
// another reason.
func conflicts(want kube.Manifest, err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	out := &kube.OwnershipError{Object: want.String()}
	for _, c := range status.Status().Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		by := c.Message
		if m := byManager.FindStringSubmatch(by); m != nil {
			if s, err := strconv.Unquote(m[1]); err == nil {
				by = s
			}
		}
		out.Fields = append(out.Fields, kube.OwnedField{Path: strings.TrimPrefix(c.Field, "."), Manager: by})
	}
	if len(out.Fields) == 0 {
		return nil
	}
	return out
}

func metaOf(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

// differs compares an object with the result of a dry run. Counters of the API server are ignored; of the
// managers, only nodejoin's fields count.
func (k *client) differs(want kube.Manifest, have, then map[string]any) []kube.FieldDiff {
	before, after := k.managed(have), k.managed(then)
	strip := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		meta := maps.Clone(metaOf(o))
		for _, name := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(meta, name)
		}
		o["metadata"] = meta
		if _, ok := want.Object["status"]; !ok { // a controller may have written it between the two requests
			delete(o, "status")
		}
		return o
	}
	out := kube.DiffFields(strip(have), strip(then))
	if len(out) == 0 && !reflect.DeepEqual(before, after) {
		out = []kube.FieldDiff{{Path: "metadata.managedFields", Have: "nodejoin owns other fields than these",
			Want: "nodejoin owns these fields"}}
	}
	return out
}

// managed returns the fields that nodejoin has applied.
func (k *client) managed(object map[string]any) any {
	list, _ := metaOf(object)["managedFields"].([]any)
	i := slices.IndexFunc(list, func(e any) bool {
		m, _ := e.(map[string]any)
		return m["manager"] == k.manager && m["operation"] == string(metav1.ManagedFieldsOperationApply)
	})
	if i < 0 {
		return nil
	}
	return list[i].(map[string]any)["fieldsV1"]
}

// locate returns the path of an object in the API.
func (k *client) locate(ctx context.Context, want kube.Manifest) (string, error) {
	prefix := "/apis/" + want.APIVersion
	if !strings.Contains(want.APIVersion, "/") {
		prefix = "/api/" + want.APIVersion
	}
	r, err := k.resource(ctx, prefix, want.Kind)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s of %s", kube.ErrNotServed, want.Kind, want.APIVersion)
	}
	if err != nil {
		return "", err
	}
	if !r.Namespaced {
		if want.Namespace != "" {
			return "", fmt.Errorf("%s: objects of this kind have no namespace", want)
		}
		return prefix + "/" + r.Name + "/" + want.Name, nil
	}
	namespace := want.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return prefix + "/namespaces/" + namespace + "/" + r.Name + "/" + want.Name, nil
}

// resource looks up a kind. A kind that is missing from the cached list may have been added since.
func (k *client) resource(ctx context.Context, prefix, kind string) (metav1.APIResource, error) {
	k.kinds.mu.Lock()
	defer k.kinds.mu.Unlock()
	find := func() int {
		return slices.IndexFunc(k.kinds.lists[prefix].APIResources, func(r metav1.APIResource) bool {
			return r.Kind == kind && !strings.Contains(r.Name, "/")
		})
	}
	if find() < 0 {
		var list metav1.APIResourceList
		what := "reading the kinds of " + prefix
		r := k.any.Get().AbsPath(prefix).Do(ctx)
		body, _ := r.Raw()
		if apierrors.IsNotFound(r.Error()) {
			// Of a group that is about to come the API server itself says so in plain text.
			return metav1.APIResource{}, fs.ErrNotExist
		}
		if err := k.fail(ctx, what, r.Error()); err != nil {
			return metav1.APIResource{}, err
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return metav1.APIResource{}, fmt.Errorf("%s: %s responds, but not like an API server: %w", what, k.server, err)
		}
		if k.kinds.lists == nil {
			k.kinds.lists = map[string]metav1.APIResourceList{}
		}
		k.kinds.lists[prefix] = list
	}
	if i := find(); i >= 0 {
		return k.kinds.lists[prefix].APIResources[i], nil
	}
	return metav1.APIResource{}, fs.ErrNotExist
}

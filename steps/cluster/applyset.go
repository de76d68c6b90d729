package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// ApplySet reads the parent and lists the members by their label.
func (k *client) ApplySet(ctx context.Context, set kube.ApplySet) (kube.SetState, error) {
	parent := set.Parent("", nil, nil)
	at, err := k.locate(ctx, parent)
	if err != nil {
		return kube.SetState{}, err
	}
	have, err := k.object(ctx, at, parent)
	if errors.Is(err, fs.ErrNotExist) {
		return kube.SetState{}, nil
	}
	if err != nil {
		return kube.SetState{}, err
	}
	annotations, _ := metaOf(have)["annotations"].(map[string]any)
	out := kube.SetStateOf(annotations)
	for _, gk := range out.Kinds {
		members, err := k.members(ctx, set, gk)
		if err != nil {
			return kube.SetState{}, err
		}
		for _, m := range members {
			if out.Holds(gk, m.Namespace) {
				out.Members = append(out.Members, m)
			}
		}
	}
	return out, nil
}

// members lists the objects of one kind that carry the set's id. A kind that is no longer served has none.
func (k *client) members(ctx context.Context, set kube.ApplySet, groupKind string) ([]kube.Member, error) {
	kind, group, _ := strings.Cut(groupKind, ".")
	version, err := k.preferred(ctx, group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	prefix := "/apis/" + version
	if group == "" {
		prefix = "/api/" + version
	}
	r, err := k.resource(ctx, prefix, kind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := k.fetch(ctx, "listing the "+groupKind+" of the plan", func() ([]byte, error) {
		r := k.any.Get().AbsPath(prefix+"/"+r.Name).Param("labelSelector", kube.PartOf+"="+set.ID()).Do(ctx)
		body, _ := r.Raw()
		return body, r.Error()
	})
	if err != nil {
		return nil, err
	}
	items, _ := list["items"].([]any)
	var out []kube.Member
	for _, item := range items {
		item, _ := item.(map[string]any)
		meta := metaOf(item)
		m := kube.Member{Manifest: kube.Manifest{APIVersion: version, Kind: kind}, Others: k.others(meta)}
		m.Name, _ = meta["name"].(string)
		m.Namespace, _ = meta["namespace"].(string)
		m.UID, _ = meta["uid"].(string)
		out = append(out, m)
	}
	return out, nil
}

// preferred is the version of a group that the API server prefers: "apps/v1", and "v1" of the core group.
func (k *client) preferred(ctx context.Context, group string) (string, error) {
	if group == "" {
		return "v1", nil
	}
	body, err := k.fetch(ctx, "reading the versions of "+group, func() ([]byte, error) {
		r := k.any.Get().AbsPath("/apis/" + group).Do(ctx)
		body, _ := r.Raw()
		if apierrors.IsNotFound(r.Error()) { // the API server says so in plain text
			return []byte("{}"), nil
		}
		return body, r.Error()
	})
	if err != nil {
		return "", err
	}
	preferred, _ := body["preferredVersion"].(map[string]any)
	version, _ := preferred["groupVersion"].(string)
	if version == "" {
		return "", fs.ErrNotExist
	}
	return version, nil
}

// controllers write into objects of others as part of their work, for example the revision of a Deployment.
var controllers = []string{"kube-controller-manager"}

// others are the managers besides nodejoin that have set fields other than those of a subresource.
func (k *client) others(meta map[string]any) (out []string) {
	list, _ := meta["managedFields"].([]any)
	for _, e := range list {
		e, _ := e.(map[string]any)
		name, _ := e["manager"].(string)
		sub, _ := e["subresource"].(string)
		if sub == "" && name != k.manager && !slices.Contains(controllers, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// DeleteObject deletes an object, and leaves what it owns to the garbage collector.
func (k *client) DeleteObject(ctx context.Context, m kube.Member) error {
	at, err := k.locate(ctx, m.Manifest)
	if err != nil {
		return err
	}
	policy := metav1.DeletePropagationBackground
	opt := metav1.DeleteOptions{PropagationPolicy: &policy}
	opt.APIVersion, opt.Kind = "v1", "DeleteOptions"
	if m.UID != "" {
		opt.Preconditions = metav1.NewUIDPreconditions(m.UID)
	}
	body, err := json.Marshal(opt)
	if err != nil {
		return err
	}
	err = k.any.Delete().AbsPath(at).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("deleting the %s: %w", m, kube.ErrChanged)
	}
	return k.fail(ctx, "deleting the "+m.String(), err)
}

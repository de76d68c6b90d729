package cluster

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"nodejoin/steps/kube"
)

// Jobs reads and writes objects of any kind, for Jobs that run nodejoin in the cluster.
type Jobs struct{ *client }

// OpenJobs is Open for objects of any kind.
func OpenJobs(ctx context.Context, c Config) (*Jobs, error) {
	api, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Jobs{api.(*client)}, nil
}

// DryRun has the API server judge an apply of the object; nothing is written. The namespace must exist.
func (j *Jobs) DryRun(ctx context.Context, m kube.Manifest) error {
	at, err := j.locate(ctx, m)
	if err != nil {
		return err
	}
	_, err = j.patch(ctx, at, m, nil, true)
	return err
}

// Get reads an object; fs.ErrNotExist if there is none.
func (j *Jobs) Get(ctx context.Context, m kube.Manifest) (map[string]any, error) {
	at, err := j.locate(ctx, m)
	if err != nil {
		return nil, err
	}
	return j.object(ctx, at, m)
}

// List reads the objects of a kind in a namespace that have labels.
func (j *Jobs) List(ctx context.Context, of kube.Manifest, labels string) ([]map[string]any, error) {
	of.Name = ""
	at, err := j.locate(ctx, of)
	if err != nil {
		return nil, err
	}
	list, err := j.fetch(ctx, "listing the objects "+of.Kind+" of "+of.Namespace, func() ([]byte, error) {
		r := j.any.Get().AbsPath(at).Param("labelSelector", labels).Do(ctx)
		body, _ := r.Raw()
		return body, r.Error()
	})
	if err != nil {
		return nil, err
	}
	items, _ := list["items"].([]any)
	out := []map[string]any{}
	for _, i := range items {
		if o, ok := i.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// Merge changes fields of an object (RFC 7386).
func (j *Jobs) Merge(ctx context.Context, m kube.Manifest, fields map[string]any) error {
	at, err := j.locate(ctx, m)
	if err != nil {
		return err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	err = j.any.Patch(types.MergePatchType).AbsPath(at).Param("fieldManager", j.manager).Body(body).
		Do(ctx).Error()
	return j.fail(ctx, "changing the "+m.String(), err)
}

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/Masterminds/semver/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"nodejoin/steps/kube"
)

// ServiceAccountToken requests a token by TokenRequest.
func (k *client) ServiceAccountToken(ctx context.Context, want kube.TokenRequest) (string, time.Time, error) {
	what := "requesting a token of the ServiceAccount " + want.Namespace + "/" + want.Name
	switch {
	case want.Node == "" && want.Secret == "":
		return k.requestToken(ctx, what, want, nil)
	case want.Node == "":
		return k.requestToken(ctx, what, want, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret",
			Name: want.Secret})
	}
	info, err := k.Info(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	if want.Name, err = k.ownAccount(ctx, want); err != nil {
		return "", time.Time{}, err
	}
	if v, err := semver.NewVersion(info.Version); err != nil || !v.LessThan(nodeBinding) {
		own := want
		own.TTL = cmp.Or(want.NodeTTL, want.TTL)
		token, ends, err := k.requestToken(ctx, what, own, &authenticationv1.BoundObjectReference{APIVersion: "v1",
			Kind: "Node", Name: want.Node, UID: types.UID(want.UID)})
		if !errors.Is(err, errNoBinding) {
			return token, ends, err
		}
	}
	secret, err := k.tokenSecret(ctx, want)
	if err != nil {
		return "", time.Time{}, err
	}
	return k.requestToken(ctx, what, want, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret",
		Name: secret.Name, UID: secret.UID})
}

// tokenSecret makes the Secret that stands for the Node, which owns it: the garbage collector deletes it with the
// Node.
func (k *client) tokenSecret(ctx context.Context, want kube.TokenRequest) (*corev1.Secret, error) {
	node, err := k.core.Nodes().Get(ctx, want.Node, metav1.GetOptions{})
	if err != nil {
		return nil, k.fail(ctx, "reading the Node "+want.Node, err)
	}
	if want.UID != "" && string(node.UID) != want.UID {
		return nil, fmt.Errorf("the Node %s: %w", want.Node, kube.ErrChanged)
	}
	secrets := k.core.Secrets(want.Namespace)
	name := kube.TokenSecret(string(node.UID))
	what := "creating the Secret " + want.Namespace + "/" + name
	made, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels:          nodeLabels(want.Node),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}},
		metav1.CreateOptions{FieldManager: k.manager})
	if apierrors.IsAlreadyExists(err) {
		return k.secretNamed(ctx, want.Namespace, name)
	}
	return made, k.fail(ctx, what, err)
}

// secretNamed finds a Secret in a list: a run in a pod may not get those of kube-system.
func (k *client) secretNamed(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	what := "reading the Secret " + namespace + "/" + name
	list, err := k.core.Secrets(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, k.fail(ctx, what, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	}
	return &list.Items[0], nil
}

// EndTokens deletes what tokens of the Node end with: the accounts of the Node alone with their roles, and the Secrets
// that tokens are bound to, in all namespaces.
func (k *client) EndTokens(ctx context.Context, node string) error {
	list, err := k.ofNode(ctx, node)
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := o.delete(ctx); err != nil {
			return k.fail(ctx, "deleting the "+o.what, err)
		}
	}
	return nil
}

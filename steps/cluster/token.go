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
	"k8s.io/apimachinery/pkg/types"

	"nodejoin/steps/kube"
)

// nodeBinding is the first version that binds tokens to Nodes and checks that the Node is there, unless its feature
// gate ServiceAccountTokenNodeBinding is off (kubernetes pkg/features/kube_features.go: alpha 1.29, beta and on 1.31,
// locked 1.33).
var (
	nodeBinding       = semver.MustParse("1.31.0-0")
	nodeBindingLocked = semver.MustParse("1.33.0-0")
)

// bindsToNodes reports whether the API server binds tokens of an account to Nodes. Where its version does not say so,
// a token for a Node that does not exist is requested: the answer differs, and none is minted. If the account does not
// exist, that is not known, and the result is true.
func (k *client) bindsToNodes(ctx context.Context, namespace, account string) (bool, error) {
	info, err := k.Info(ctx)
	if err != nil {
		return false, err
	}
	if v, err := semver.NewVersion(info.Version); err == nil {
		if v.LessThan(nodeBinding) {
			return false, nil
		}
		if !v.LessThan(nodeBindingLocked) {
			return true, nil
		}
	}
	what := "asking whether tokens of the ServiceAccount " + namespace + "/" + account + " can be bound to Nodes"
	_, _, err = k.requestToken(ctx, what, kube.TokenRequest{Namespace: namespace, Name: account, TTL: time.Hour},
		&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "nodejoin.invalid", UID: "none"})
	switch {
	case errors.Is(err, errNoBinding):
		return false, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, kube.ErrChanged):
		return true, nil
	case err == nil:
		return false, fmt.Errorf("%s: the API server mints a token for a Node that does not exist", what)
	}
	return false, err
}

// ServiceAccountToken requests a token by TokenRequest.
func (k *client) ServiceAccountToken(ctx context.Context, want kube.TokenRequest) (string, time.Time, error) {
	what := "requesting a token of the ServiceAccount " + want.Namespace + "/" + want.Name
	if want.Node == "" {
		return k.requestToken(ctx, what, want, nil)
	}
	info, err := k.Info(ctx)
	if err != nil {
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

// errNoBinding: the API server binds no tokens to an object of that kind.
var errNoBinding = errors.New("the API server does not bind tokens to such an object")

func (k *client) requestToken(ctx context.Context, what string, want kube.TokenRequest,
	to *authenticationv1.BoundObjectReference) (string, time.Time, error) {
	seconds := int64(want.TTL / time.Second)
	r, err := k.core.CreateToken(ctx, want.Namespace, want.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: to}},
		metav1.CreateOptions{FieldManager: k.manager})
	switch {
	case to != nil && apierrors.IsBadRequest(err): // its gate is off (pkg/registry/core/serviceaccount/storage/token.go)
		return "", time.Time{}, fmt.Errorf("%w: %w", errNoBinding, k.fail(ctx, what, err))
	case to != nil && apierrors.IsConflict(err):
		return "", time.Time{}, fmt.Errorf("%s: the %s %s: %w", what, to.Kind, to.Name, kube.ErrChanged)
	case err != nil:
		return "", time.Time{}, k.fail(ctx, what, err)
	case r.Status.Token == "":
		return "", time.Time{}, fmt.Errorf("%s: the response contains none", what)
	}
	return r.Status.Token, r.Status.ExpirationTimestamp.Time, nil
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
	labels := map[string]string{nodeLabel: labelValue(want.Node), tokenLabel: "true"}
	for key, v := range ownership {
		labels[key] = v
	}
	made, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}},
		metav1.CreateOptions{FieldManager: k.manager})
	if apierrors.IsAlreadyExists(err) {
		made, err = secrets.Get(ctx, name, metav1.GetOptions{})
	}
	return made, k.fail(ctx, what, err)
}

// tokenLabel marks the Secrets that tokens are bound to.
const tokenLabel = "nodejoin.dev/binds-tokens" //nolint:gosec // a label

// EndTokens deletes the Secrets of the Node that tokens are bound to, in all namespaces.
func (k *client) EndTokens(ctx context.Context, node string) error {
	list, err := k.core.Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: nodeLabel + "=" + labelValue(node) + "," + tokenLabel + "=true"})
	if err != nil {
		return k.fail(ctx, "listing the Secrets that tokens of "+node+" are bound to", err)
	}
	for _, s := range list.Items {
		err := k.core.Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
		if err != nil && (!apierrors.IsNotFound(err) || isForeign(err)) {
			return k.fail(ctx, "deleting the Secret "+s.Namespace+"/"+s.Name, err)
		}
	}
	return nil
}

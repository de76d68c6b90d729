package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/Masterminds/semver/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	return shared(ctx, &k.asks, "binding of "+namespace+"/"+account, func() (bool, error) {
		return k.asksForBinding(ctx, namespace, account)
	})
}

func (k *client) asksForBinding(ctx context.Context, namespace, account string) (bool, error) {
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

package pull

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// member is the cluster as a node that follows a plan sees it. It joins nobody: bootstrap tokens are Secrets of
// kube-system, which a node has no right to read.
type member struct{ kube.API }

var _ kube.API = member{}

// MintToken makes none.
func (member) MintToken(_ context.Context, node string, _ time.Duration) (kube.BootstrapToken, error) {
	return kube.BootstrapToken{}, notJoined(node)
}

// BootstrapTokens has none: a controller has ended those of the join.
func (member) BootstrapTokens(context.Context, string) ([]kube.BootstrapToken, error) {
	return nil, nil
}

// RevokeToken has nothing to revoke.
func (member) RevokeToken(context.Context, string) error { return nil }

// EndTokens ends none: those of a Node that is gone end by themselves, and the garbage collector deletes the rest.
func (member) EndTokens(context.Context, string) error { return nil }

// notJoined is the error of a machine that is not in the cluster.
func notJoined(node string) error {
	return &steps.Error{Code: steps.CodeInvalid, Summary: "the machine has not joined",
		Detail: "the cluster has no Node " + node + ", and a machine that follows a plan has no right to make tokens",
		Remedy: "join it once with 'nodejoin apply', or at its first boot; then it follows the plan"}
}

// joined reports whether the Node is in the cluster.
func joined(ctx context.Context, api kube.API, node string) error {
	_, err := api.Node(ctx, node)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return notJoined(node)
	}
	return &fetchedError{err}
}

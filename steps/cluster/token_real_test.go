package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// TestTokensOfNode: a copy of a component's token becomes invalid with its Node, on a server that limits its lifetime.
func TestTokensOfNode(t *testing.T) {
	p := startControlPlane(t, "--service-account-max-token-expiration=1h")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Kubeconfig: p.kubeconfig})
	p.must(err)
	uids := p.nodes(ctx, testNode, "win-2")
	const account = "nodejoin-flannel"
	p.run(ctx, a, "account", &kinds.ServiceAccount{Namespace: "kube-system", Name: account,
		ClusterRole: "nodejoin:" + account,
		Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}})
	token := p.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: "kube-system", Name: account,
		TTL: "24h"})["token"]
	first, err := kube.ParseToken(token)
	if err != nil || !first.EndsWith(string(uids[testNode])) || first.Ends.Sub(first.Issued) != time.Hour {
		t.Fatalf("%+v, %v: not bound to the Node, or not with the lifetime that the API server grants", first, err)
	}

	_, err = whoami(ctx, p.as(rest.Config{BearerToken: token}))
	p.must(err)
	p.must(a.DeleteNode(ctx, testNode, string(uids[testNode])))
	p.unauthorized(token, "the token of a Node that is gone")
	p.bySecret(ctx, a, account, uids)
}

// bySecret: a token that is bound to a Secret becomes invalid when a leave deletes the Secret.
func (p *controlPlane) bySecret(ctx context.Context, a kube.API, account string, uids map[string]types.UID) {
	p.t.Helper()
	k := a.(*client)
	want := kube.TokenRequest{Namespace: "kube-system", Name: account, TTL: 10 * time.Minute, Node: "win-2",
		UID: string(uids["win-2"])}
	secret, err := k.tokenSecret(ctx, want)
	p.must(err)
	token, _, err := k.requestToken(ctx, "token", want, &authenticationv1.BoundObjectReference{APIVersion: "v1",
		Kind: "Secret", Name: secret.Name, UID: secret.UID})
	p.must(err)
	have, err := kube.ParseToken(token)
	if err != nil || !have.EndsWith(string(uids["win-2"])) {
		p.t.Errorf("%+v, %v", have, err)
	}
	_, err = whoami(ctx, p.as(rest.Config{BearerToken: token}))
	p.must(err)
	p.must(a.EndTokens(ctx, "win-2"))
	p.unauthorized(token, "a token of a Secret that is gone")
}

// unauthorized waits until the API server answers 401 to a token.
func (p *controlPlane) unauthorized(token, what string) {
	p.t.Helper()
	c := p.as(rest.Config{BearerToken: token})
	began := time.Now()
	p.until(time.Minute, what+" is refused", func(ctx context.Context) error {
		if _, err := whoami(ctx, c); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("answered: %w", errors.Join(err, errors.ErrUnsupported))
		}
		return nil
	})
	p.t.Logf("%s: 401 after %v", what, time.Since(began).Round(time.Millisecond))
}

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// TestOwnNode: the token of a node's component changes its own Node and renews itself. It changes no other Node, and
// gets no token of another account, of another Node or without one. Other users are not affected.
func TestOwnNode(t *testing.T) {
	p := startControlPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Kubeconfig: p.kubeconfig})
	p.must(err)
	uids := p.nodes(ctx, testNode, "win-2")
	const namespace, account, second = "kube-system", "nodejoin-flannel", "nodejoin-kube-proxy"
	mints := []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}}
	flannel := &kinds.ServiceAccount{Namespace: namespace, Name: account, ClusterRole: "test:" + account, Rules: mints}
	p.run(ctx, a, "account", flannel)
	p.run(ctx, a, "account", &kinds.ServiceAccount{Namespace: namespace, Name: second, ClusterRole: "test:" + account,
		Rules: mints})
	token := p.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: namespace, Name: account})["token"]
	c := p.as(rest.Config{BearerToken: token})
	bound := func(node string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: uids[node]}
	}
	p.must(patchStatus(ctx, c, "win-2")) // as long as nothing limits the account, whose role is wide here
	p.must(requestAs(ctx, c, second, bound("win-2")))

	flannel.OwnNode = true
	p.run(ctx, a, "account", flannel)
	p.until(time.Minute, "the policy is in force", func(ctx context.Context) error {
		return wantForbidden(patchStatus(ctx, c, "win-2"), "the token is bound to another Node")
	})
	p.must(patchStatus(ctx, c, testNode))
	p.must(requestAs(ctx, c, account, bound(testNode)))
	p.must(patchStatus(ctx, p.admin, "win-2"))
	for _, refused := range []struct {
		account string
		to      *authenticationv1.BoundObjectReference
		why     string
	}{
		{second, bound(testNode), "the account requests tokens only of itself"},
		{account, bound("win-2"), "a token is renewed only for the Node that it is bound to"},
		{account, nil, "a token is renewed only for the Node that it is bound to"},
	} {
		p.must(wantForbidden(requestAs(ctx, c, refused.account, refused.to), refused.why))
	}

	unbound, err := p.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	p.must(err)
	loose := p.as(rest.Config{BearerToken: unbound.Status.Token})
	p.must(wantForbidden(patchStatus(ctx, loose, testNode), "the token is not bound to a Node"))
	p.must(wantForbidden(requestAs(ctx, loose, account, bound(testNode)), "the token is not bound to a Node"))
	p.ownToken(ctx, a, bound(testNode))
}

// ownToken: the Role of an account with own_node is enough to renew its token, and for no other.
func (p *controlPlane) ownToken(ctx context.Context, a kube.API, to *authenticationv1.BoundObjectReference) {
	p.t.Helper()
	const name = "nodejoin-narrow"
	p.run(ctx, a, "account", &kinds.ServiceAccount{Namespace: "kube-system", Name: name, ClusterRole: "test:" + name,
		Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}}, OwnNode: true})
	token := p.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: "kube-system", Name: name})["token"]
	c := p.as(rest.Config{BearerToken: token})
	p.until(time.Minute, "the token renews itself", func(ctx context.Context) error {
		return requestAs(ctx, c, name, to)
	})
	p.must(wantForbidden(requestAs(ctx, c, "nodejoin-flannel", to), "cannot create resource"))
}

func requestAs(ctx context.Context, c *kubernetes.Clientset, account string,
	to *authenticationv1.BoundObjectReference) error {
	_, err := c.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to}}, metav1.CreateOptions{})
	return err
}

func patchStatus(ctx context.Context, c *kubernetes.Clientset, node string) error {
	_, err := c.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType,
		[]byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{}, "status")
	return err
}

func wantForbidden(err error, why string) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), why) {
		return nil
	}
	return fmt.Errorf("want 403: %s; have: %w", why, err)
}

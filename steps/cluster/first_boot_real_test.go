package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodejoin/steps/kube"
)

// TestFirstBootLimits: who has the user data of a node gets tokens of the accounts of its programs for that Node only,
// although its role names the accounts alone. Other users are not affected. Its certificate is good for that Node.
func TestFirstBootLimits(t *testing.T) {
	p := startControlPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Kubeconfig: p.kubeconfig})
	p.must(err)
	defer a.Close()
	const longer = testNode + ".example"
	uids := p.nodes(ctx, testNode, "win-2", longer)
	rule := func(resource string, names []string, verbs ...string) kube.Rule {
		return kube.Rule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	accounts := []string{"nodejoin-flannel", "nodejoin-node"}
	for _, name := range accounts {
		p.must(a.EnsureServiceAccount(ctx, kube.ServiceAccount{Namespace: "kube-system", Name: name,
			ClusterRole: "test:" + name, Rules: []kube.Rule{rule("nodes", nil, "get")}}))
	}
	stolen := kube.FirstBoot(testNode)
	stolen.Rules = []kube.Rule{rule("nodes", nil, "get", "list"), rule("serviceaccounts/token", accounts, "create"),
		rule("serviceaccounts", []string{"nodejoin-flannel." + testNode, "nodejoin-node." + testNode}, "get")}
	p.must(a.EnsureServiceAccount(ctx, stolen))
	token, _, err := a.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: stolen.Namespace, Name: stolen.Name,
		TTL: time.Hour})
	p.must(err)
	own, err := Open(ctx, Config{Kubeconfig: p.writeKubeconfig("first-boot", &clientcmdapi.AuthInfo{Token: token})})
	p.must(err)
	defer own.Close()
	c := p.as(rest.Config{BearerToken: token})
	bound := func(node string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: uids[node]}
	}
	of := kube.TokenRequest{Namespace: "kube-system", Name: "nodejoin-flannel", Node: testNode}
	limited := func() bool {
		yes, err := kube.FirstBootLimited(ctx, own, of)
		p.must(err)
		return yes
	}
	p.until(time.Minute, "its rights are in force", func(ctx context.Context) error {
		return requestAs(ctx, c, "nodejoin-node", bound("win-2")) // as long as nothing limits it
	})
	if limited() {
		t.Fatal("the limits are said to be in force before they are made")
	}

	for _, m := range kube.FirstBootLimits() {
		p.must(a.ApplyManifest(ctx, m))
	}
	p.until(time.Minute, "the limits are in force", func(context.Context) error {
		if !limited() {
			return errors.New("they are not")
		}
		return nil
	})
	const why = "a first boot requests only tokens that are bound to its own Node"
	for _, name := range accounts {
		p.must(requestAs(ctx, c, name, bound(testNode)))
		p.must(requestAs(ctx, c, name, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node",
			Name: testNode}))
		secret := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: testNode}
		for _, to := range []*authenticationv1.BoundObjectReference{bound("win-2"), bound(longer), nil, {}, secret,
			{Kind: "Node"}} {
			p.must(wantForbidden(requestAs(ctx, c, name, to), why))
		}
		p.must(requestAs(ctx, p.admin, name, bound("win-2")))
	}
	p.must(wantForbidden(requestAs(ctx, c, "default", bound(testNode)), "cannot create resource"))
	_, err = p.admin.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	p.must(err)
	p.nodeCertificate(ctx, a, own)
}

package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// TestAccountOfNode: where the API server cannot limit an account to the Node of its token, each Node has an account
// with a role of its own. A copy of its token changes no other Node, and nothing is left of it when the Node has left
// or is deleted. One server has no ValidatingAdmissionPolicy; one says that it is 1.30, which also binds no tokens to
// Nodes for nodejoin.
func TestAccountOfNode(t *testing.T) {
	p := startControlPlane(t, "--disable-admission-plugins=ValidatingAdmissionPolicy",
		"--runtime-config=admissionregistration.k8s.io/v1/validatingadmissionpolicies=false")
	older := p.saying("v1.30.4", p.kubeconfig)
	for i, c := range []struct{ name, kubeconfig, bound string }{
		{"no ValidatingAdmissionPolicy", p.kubeconfig, "Node"},
		{"1.30", older, "Secret"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		a, err := Open(ctx, Config{Kubeconfig: c.kubeconfig})
		p.must(err)
		p.accountOfNode(ctx, a, c.name, c.bound, fmt.Sprintf("other-%d", i))
		if err := a.ApplyManifest(ctx, kube.FirstBootLimits()[0]); !errors.Is(err, kube.ErrNotServed) {
			t.Errorf("%s: limits of first boots: %v, want that they are not served", c.name, err)
		}
	}
}

func (p *controlPlane) accountOfNode(ctx context.Context, a kube.API, what, bound, other string) {
	p.t.Helper()
	const namespace, account = "kube-system", "nodejoin-flannel"
	join := func() (token string) {
		p.run(ctx, a, "account", &kinds.ServiceAccount{Namespace: namespace, Name: account, ClusterRole: "nodejoin:flannel",
			Rules: []kube.Rule{
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
			}, OwnNode: true, Node: testNode})
		p.nodes(ctx, testNode)
		token = p.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: namespace, Name: account})["token"]
		have, err := kube.ParseToken(token)
		if err != nil || have.Account != namespace+"/"+account+"."+testNode || have.BoundKind != bound {
			p.t.Fatalf("%s: %+v, %v", what, have, err)
		}
		return token
	}
	p.nodes(ctx, other)
	if left := p.ofTestNode(ctx); len(left) > 0 {
		p.t.Fatalf("%s: before the join: %v", what, left)
	}

	token := join()
	copied := p.as(rest.Config{BearerToken: token})
	p.until(time.Minute, "the role is in force", func(ctx context.Context) error {
		return patchStatus(ctx, copied, testNode)
	})
	p.must(wantForbidden(patchStatus(ctx, copied, other), "cannot patch resource"))
	_, err := copied.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	p.must(err)
	node, err := a.Node(ctx, testNode)
	p.must(err)
	p.must(a.EndTokens(ctx, testNode))
	if left := p.ofTestNode(ctx); len(left) > 0 {
		p.t.Errorf("%s: after the leave: %v", what, left)
	}
	p.must(a.DeleteNode(ctx, testNode, node.UID))
	p.unauthorized(token, what+": a copy of the token after the leave")

	token = join()
	p.must(p.admin.CoreV1().Nodes().Delete(ctx, testNode, metav1.DeleteOptions{}))
	p.until(time.Minute, "the garbage collector has deleted all that the Node owned", func(ctx context.Context) error {
		if left := p.ofTestNode(ctx); len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
	p.unauthorized(token, what+": a copy of the token after kubectl delete node")
}

// ofTestNode lists the accounts, roles, bindings and Secrets that name the Node of the test.
func (p *controlPlane) ofTestNode(ctx context.Context) (out []string) {
	p.t.Helper()
	accounts, err := p.admin.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{})
	p.must(err)
	for _, o := range accounts.Items {
		out = append(out, "ServiceAccount "+o.Name)
	}
	roles, err := p.admin.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	p.must(err)
	for _, o := range roles.Items {
		out = append(out, "ClusterRole "+o.Name)
	}
	bindings, err := p.admin.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	p.must(err)
	for _, o := range bindings.Items {
		out = append(out, "ClusterRoleBinding "+o.Name)
	}
	secrets, err := p.admin.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	p.must(err)
	for _, o := range secrets.Items {
		out = append(out, "Secret "+o.Name)
	}
	kept := out[:0]
	for _, s := range out {
		if _, name, _ := strings.Cut(s, " "); strings.Contains(name, testNode) || strings.HasPrefix(name, "nodejoin") {
			kept = append(kept, s)
		}
	}
	return kept
}

// saying is a kubeconfig for the same API server behind a proxy that answers with another version. The proxy is the
// user of the kubeconfig.
func (p *controlPlane) saying(gitVersion, kubeconfig string) (older string) {
	p.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	p.must(err)
	transport, err := rest.TransportFor(cfg)
	p.must(err)
	to, err := url.Parse(p.url)
	p.must(err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = transport
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "30", GitVersion: gitVersion}); err != nil {
			p.t.Error(err)
		}
	}))
	own, err := tls.LoadX509KeyPair(p.path("apiserver.crt"), p.path("apiserver.key"))
	p.must(err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	p.t.Cleanup(s.Close)
	text, err := clientcmd.LoadFromFile(kubeconfig)
	p.must(err)
	for _, c := range text.Clusters {
		c.Server = s.URL
	}
	older = kubeconfig + ".older"
	p.must(clientcmd.WriteToFile(*text, older))
	return older
}

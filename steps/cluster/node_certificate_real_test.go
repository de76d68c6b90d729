package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// nodeCertificate: with the certificate of a node's user data somebody gets a certificate of that Node, and of no
// other. It is refused where nobody would approve that, or where the caller has no rights. Its Secret authenticates
// nobody.
func (p *controlPlane) nodeCertificate(ctx context.Context, a, less kube.API) {
	p.t.Helper()
	const ttl = 20 * time.Minute
	if _, err := less.MintCertificate(ctx, testNode, ttl); !errors.Is(err, kube.ErrForbidden) {
		p.t.Errorf("without rights: %v", err)
	}
	var se *steps.Error
	if _, err := a.MintCertificate(ctx, testNode, ttl); !errors.As(err, &se) ||
		!strings.Contains(se.Remedy, "--clusterrole="+selfApproval+" --group=system:nodes") {
		p.t.Errorf("nobody would approve: %v", err)
	}
	p.bindNodes(ctx)
	var token kube.BootstrapToken
	p.until(30*time.Second, "the binding counts", func(ctx context.Context) (err error) {
		token, err = a.MintCertificate(ctx, testNode, ttl)
		return err
	})
	if left, err := a.SigningRequests(ctx, testNode); err != nil || len(left) != 0 {
		p.t.Errorf("requests that are left: %+v, %v", left, err)
	}
	cert, key := token.Pair()
	pair, err := tls.X509KeyPair(cert, key)
	p.must(err)
	if life := time.Until(token.Expires); life > ttl || life < ttl-time.Minute ||
		!pair.Leaf.NotAfter.Equal(token.Expires) {
		p.t.Errorf("it lives for %v, until %v", life, pair.Leaf.NotAfter)
	}
	own := p.as(rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert, KeyData: key}})
	if name, err := whoami(ctx, own); err != nil || name != "system:node:"+testNode {
		p.t.Errorf("it is of %s, %v", name, err)
	}
	p.ownRequestsOnly(ctx, own)
	p.ownNodeOnly(ctx, own)
	p.authenticatesNobody(ctx, a, token)
}

// bindNodes lets the cluster approve what Nodes request for themselves, and lets them read the kubelet's settings, as
// kubeadm does.
func (p *controlPlane) bindNodes(ctx context.Context) {
	p.t.Helper()
	nodes := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}}
	rbac, opts := p.admin.RbacV1(), metav1.CreateOptions{}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "renewals"}, Subjects: nodes,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: selfApproval}}, opts)
	p.must(err)
	_, err = p.admin.CoreV1().ConfigMaps("kube-system").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kubelet-config"}}, opts)
	p.must(err)
	_, err = rbac.Roles("kube-system").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "kubelet-config"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{"kubelet-config"}, Verbs: []string{"get"}}}}, opts)
	p.must(err)
	_, err = rbac.RoleBindings("kube-system").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelet-config"}, Subjects: nodes,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "kubelet-config"}}, opts)
	p.must(err)
}

// ownRequestsOnly: a request for another Node is refused or not approved, one for the own Node is signed.
func (p *controlPlane) ownRequestsOnly(ctx context.Context, own *kubernetes.Clientset) {
	p.t.Helper()
	requests := p.admin.CertificatesV1().CertificateSigningRequests()
	other := p.requestOf(ctx, own, "csr-other", "win-2")
	if other != nil && !apierrors.IsForbidden(other) {
		p.t.Errorf("a request for another Node: %v", other)
	}
	p.must(p.requestOf(ctx, own, "csr-own", testNode))
	p.until(30*time.Second, "the own request is approved and signed", func(ctx context.Context) error {
		q, err := requests.Get(ctx, "csr-own", metav1.GetOptions{})
		if err == nil && len(q.Status.Certificate) == 0 {
			err = fmt.Errorf("its conditions: %+v", q.Status.Conditions)
		}
		return err
	})
	if other != nil {
		p.t.Logf("a request for another Node: %v", other)
		return
	}
	q, err := requests.Get(ctx, "csr-other", metav1.GetOptions{}) // it came before the one that is signed
	if err != nil || len(q.Status.Certificate) > 0 || len(q.Status.Conditions) > 0 {
		p.t.Errorf("the request for another Node: %v, %+v", err, q.Status.Conditions)
	}
}

// requestOf files the request of a kubelet.
func (p *controlPlane) requestOf(ctx context.Context, c *kubernetes.Clientset, name, node string) error {
	p.t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, newKey(p.t))
	p.must(err)
	_, err = c.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth}}},
		metav1.CreateOptions{})
	return err
}

// ownNodeOnly: what kubeadm and the kubelet read is allowed, what is other Nodes' or the cluster's is not.
func (p *controlPlane) ownNodeOnly(ctx context.Context, own *kubernetes.Clientset) {
	p.t.Helper()
	core := own.CoreV1()
	_, err := core.Nodes().Get(ctx, testNode, metav1.GetOptions{})
	p.must(err)
	p.until(10*time.Second, "the role counts", func(ctx context.Context) error {
		_, err := core.ConfigMaps("kube-system").Get(ctx, "kubelet-config", metav1.GetOptions{})
		return err
	})
	_, errSecrets := core.Secrets("kube-system").List(ctx, metav1.ListOptions{})
	_, errInfo := core.ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{})
	_, errPatch := core.Nodes().Patch(ctx, "win-2", "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{})
	_, errCreate := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-3"}},
		metav1.CreateOptions{})
	for what, err := range map[string]error{"list Secrets": errSecrets, "change another Node": errPatch,
		"create another Node": errCreate,
		"read cluster-info, without which kubeadm goes on if it is forbidden": errInfo} {
		if !apierrors.IsForbidden(err) {
			p.t.Errorf("it may %s: %v", what, err)
		}
	}
}

// authenticatesNobody: the Secret of the certificate's ID is no bootstrap token, and what is bound to it ends with it.
func (p *controlPlane) authenticatesNobody(ctx context.Context, a kube.API, token kube.BootstrapToken) {
	p.t.Helper()
	have, err := a.BootstrapTokens(ctx, testNode)
	if err != nil || !slices.ContainsFunc(have, func(t kube.BootstrapToken) bool {
		return t.ID == token.ID && t.Expires.Equal(token.Expires)
	}) {
		p.t.Errorf("%v: its Secret is not among %+v", err, have)
	}
	s, err := p.admin.CoreV1().Secrets("kube-system").Get(ctx, "bootstrap-token-"+token.ID, metav1.GetOptions{})
	p.must(err)
	bearer := p.as(rest.Config{BearerToken: token.ID + "." + string(s.Data["token-secret"])})
	if name, err := whoami(ctx, bearer); !apierrors.IsUnauthorized(err) {
		p.t.Errorf("its Secret authenticates %q, %v", name, err)
	}
	first := kube.FirstBoot(testNode)
	bound, _, err := a.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: first.Namespace, Name: first.Name,
		TTL: time.Hour, Secret: s.Name})
	p.must(err)
	account := p.as(rest.Config{BearerToken: bound})
	_, err = whoami(ctx, account)
	p.must(err)
	p.must(a.RevokeToken(ctx, token.ID))
	p.until(30*time.Second, "the account's token has ended", func(ctx context.Context) error {
		if _, err := whoami(ctx, account); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("it has not: %w", err)
		}
		return nil
	})
}

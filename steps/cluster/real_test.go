package cluster

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

const testNode = "win-1"

// TestRealCluster joins a Node by hand, as a kubelet does, and checks every stage
// through kube.API and the step kinds.
func TestRealCluster(t *testing.T) {
	p := startControlPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Kubeconfig: p.kubeconfig, CAHash: spkiHash(p.ca)})
	p.must(err)

	info, err := a.Info(ctx)
	if err != nil || !strings.HasPrefix(info.Version, "v1.") || info.Server != p.url ||
		info.CAHash != spkiHash(p.ca) || info.CA == "" {
		t.Fatalf("info: %+v, %v", info, err)
	}
	if _, err := a.Node(ctx, testNode); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("absent Node: %v", err)
	}

	p.bindBootstrappers(ctx)
	token, bootstrap := p.mint(ctx, a)
	key := newKey(t)
	p.waitFor(ctx, a, &kinds.NodeRegistered{PodCIDR: true}, "no certificate request of system:node:win-1")
	p.request(ctx, bootstrap, "csr-win-1", key)
	p.waitFor(ctx, a, &kinds.NodeRegistered{PodCIDR: true}, "csr-win-1 of system:bootstrap:"+token.ID+" is pending")
	cert := p.approve(ctx, a, "csr-win-1")
	p.waitFor(ctx, a, &kinds.NodeRegistered{PodCIDR: true}, "was issued, but the kubelet")
	if other, err := a.SigningRequests(ctx, "win-2"); err != nil || len(other) != 0 {
		t.Errorf("requests of another node: %v, %v", other, err)
	}

	kubelet := p.as(rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert, KeyData: keyPEM(t, key)}})
	_, err = kubelet.CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, Labels: map[string]string{"kubernetes.io/os": "windows"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "foreign", Value: "kept",
				Effect: corev1.TaintEffectNoSchedule}}}}, metav1.CreateOptions{})
	p.must(err)
	out := p.run(ctx, a, "node_registered", &kinds.NodeRegistered{PodCIDR: true})
	if !strings.HasPrefix(out["pod_cidr"], "10.244.") {
		t.Errorf("pod CIDR: %v", out)
	}

	p.labelsAndTaints(ctx, a)
	p.cordons(ctx, a)
	p.readiness(ctx, a, kubelet)
	p.workloads(ctx, a, kubelet)
	p.denied(ctx, a, bootstrap, key)
	p.revoke(ctx, a, token)
	p.account(ctx, a)
	p.manifests(ctx, a)

	stop(p.apiserver)
	if _, err := a.Node(ctx, testNode); !errors.Is(err, kube.ErrUnreachable) || !strings.Contains(err.Error(), p.url) {
		t.Errorf("stopped API server: %v", err)
	}
}

// cordons: nodejoin lifts its own cordon, but not that of an administrator who uncordoned
// the Node and cordoned it again while nodejoin's note was still there.
func (p *controlPlane) cordons(ctx context.Context, a kube.API) {
	p.t.Helper()
	see := func(unschedulable bool, own string) {
		p.t.Helper()
		if n, err := a.Node(ctx, testNode); err != nil || n.Unschedulable != unschedulable || n.OwnCordon != own {
			p.t.Errorf("unschedulable %v, own cordon %q, %v; want %v, %q", n.Unschedulable, n.OwnCordon, err,
				unschedulable, own)
		}
	}
	kubectl := func(manager string, on bool) {
		p.t.Helper()
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, on)
		_, err := p.admin.CoreV1().Nodes().Patch(ctx, testNode, types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{FieldManager: manager})
		p.must(err)
	}
	p.must(a.Cordon(ctx, testNode, "upgrade"))
	see(true, "upgrade")
	p.must(a.SetAnnotations(ctx, testNode, map[string]string{"example.test/x": "y"}, nil))
	kubectl("kubectl-cordon", true) // it is already cordoned: this changes nothing
	see(true, "upgrade")
	p.must(a.Uncordon(ctx, testNode))
	see(false, "")

	p.must(a.Cordon(ctx, testNode, "upgrade"))
	kubectl("kubectl-uncordon", false)
	see(false, "")
	kubectl("kubectl-cordon", true)
	see(true, "")
	p.must(a.Uncordon(ctx, testNode))
	see(true, "")
	if n, err := a.Node(ctx, testNode); err != nil || n.Annotations[kube.CordonedBy] != "" {
		p.t.Errorf("the note is still there: %v, %v", n.Annotations, err)
	}
	kubectl("kubectl-uncordon", false)
}

// run takes a step through check, apply and check again.
func (p *controlPlane) run(ctx context.Context, a kube.API, id string, step steps.ClusterStep) map[string]string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	e := &steps.Env{Node: testNode, StepID: id, Progress: func(event.StepProgress) {}}
	c, err := step.Check(ctx, a, e)
	p.must(err)
	if !c.NoOp() {
		o, err := step.Apply(ctx, a, e, c)
		p.must(err)
		e.Applied = o.Outputs
		if c, err = step.Check(ctx, a, e); err != nil || !c.NoOp() {
			p.t.Fatalf("%s: after its apply: %+v, %v", id, c, err)
		}
		if len(o.Outputs) > 0 {
			return o.Outputs
		}
	}
	return c.Outputs
}

// waitFor lets a gate time out and checks its error.
func (p *controlPlane) waitFor(ctx context.Context, a kube.API, step steps.ClusterStep, want string) {
	p.t.Helper()
	p.until(20*time.Second, "the gate says "+want, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		defer cancel()
		_, err := step.Apply(ctx, a, &steps.Env{Node: testNode, Progress: func(event.StepProgress) {}},
			steps.Change{Action: steps.ActionWait})
		var se *steps.Error
		if !errors.As(err, &se) || se.Code != steps.CodeTimeout || !strings.Contains(se.Detail, want) {
			return fmt.Errorf("have %w", err)
		}
		return nil
	})
}

// bindBootstrappers lets bootstrap tokens file requests, but lets nothing approve them.
func (p *controlPlane) bindBootstrappers(ctx context.Context) {
	_, err := p.admin.RbacV1().ClusterRoleBindings().Create(ctx,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "bootstrappers"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: bootstrapGroup}}},
		metav1.CreateOptions{})
	p.must(err)
}

func whoami(ctx context.Context, c *kubernetes.Clientset) (string, error) {
	r, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return r.Status.UserInfo.Username, nil
}

// mint creates a token with its step and authenticates with it.
func (p *controlPlane) mint(ctx context.Context, a kube.API) (kube.BootstrapToken, *kubernetes.Clientset) {
	out := p.run(ctx, a, "bootstrap_token", &kinds.BootstrapToken{TTL: "5m"})
	have, err := a.BootstrapTokens(ctx, testNode)
	p.must(err)
	if len(have) != 1 || have[0].Secret != "" || time.Until(have[0].Expires) > 5*time.Minute ||
		time.Until(have[0].Expires) < 4*time.Minute {
		p.t.Fatalf("tokens: %+v", have)
	}
	c := p.as(rest.Config{BearerToken: out["token"]})
	p.until(10*time.Second, "the token authenticates", func(ctx context.Context) error {
		name, err := whoami(ctx, c)
		if err == nil && name != "system:bootstrap:"+have[0].ID {
			return fmt.Errorf("it is %s", name)
		}
		return err
	})
	return have[0], c
}

func (p *controlPlane) revoke(ctx context.Context, a kube.API, token kube.BootstrapToken) {
	p.run(ctx, a, "bootstrap_token_end", &kinds.BootstrapToken{Absent: true})
	if have, err := a.BootstrapTokens(ctx, testNode); err != nil || len(have) != 0 {
		p.t.Errorf("after revoking: %v, %v", have, err)
	}
	p.must(a.RevokeToken(ctx, token.ID)) // absence is not an error
}

// request files a certificate request as a kubelet does.
func (p *controlPlane) request(ctx context.Context, c *kubernetes.Clientset, name string, key crypto.Signer) {
	p.t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + testNode,
			Organization: []string{"system:nodes"}}}, key)
	p.must(err)
	_, err = c.CertificatesV1().CertificateSigningRequests().Create(ctx,
		&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{Request: pem.EncodeToMemory(
				&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
				Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}}},
		metav1.CreateOptions{})
	p.must(err)
}

func (p *controlPlane) decide(ctx context.Context, name string, t certificatesv1.RequestConditionType) {
	q, err := p.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	p.must(err)
	q.Status.Conditions = append(q.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: t,
		Status: corev1.ConditionTrue, Reason: "Test", Message: "by hand"})
	_, err = p.admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, name, q, metav1.UpdateOptions{})
	p.must(err)
}

func (p *controlPlane) approve(ctx context.Context, a kube.API, name string) (cert []byte) {
	p.decide(ctx, name, certificatesv1.CertificateApproved)
	p.until(20*time.Second, "the certificate is issued", func(ctx context.Context) error {
		have, err := a.SigningRequests(ctx, testNode)
		if err == nil && (len(have) != 1 || !have[0].Approved || have[0].Denied || !have[0].Issued) {
			err = fmt.Errorf("requests: %+v", have)
		}
		return err
	})
	q, err := p.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	p.must(err)
	return q.Status.Certificate
}

// denied: a later request that was denied outweighs an earlier one that was granted.
func (p *controlPlane) denied(ctx context.Context, a kube.API, bootstrap *kubernetes.Clientset, key crypto.Signer) {
	first, err := a.SigningRequests(ctx, testNode)
	p.must(err)
	p.until(5*time.Second, "a second has passed since the first request", func(context.Context) error {
		if time.Since(first[0].Created) < 1100*time.Millisecond {
			return errors.New("the same second")
		}
		return nil
	})
	p.request(ctx, bootstrap, "csr-late", key)
	p.decide(ctx, "csr-late", certificatesv1.CertificateDenied)
	have, err := a.SigningRequests(ctx, testNode)
	if err != nil || len(have) != 2 || have[0].Name != "csr-late" || !have[0].Denied || have[0].Approved ||
		have[0].Message != "Test: by hand" {
		p.t.Errorf("denied: %+v, %v", have, err)
	}
}

// labelsAndTaints sets them while another writer changes the same Node.
func (p *controlPlane) labelsAndTaints(ctx context.Context, a kube.API) {
	busy, done := context.WithCancel(ctx)
	written := make(chan int)
	go func() {
		n := 0
		for busy.Err() == nil {
			b := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/count":"%d"}}}`, n)
			if _, err := p.admin.CoreV1().Nodes().Patch(busy, testNode, "application/merge-patch+json", b,
				metav1.PatchOptions{}); err == nil {
				n++
			}
		}
		written <- n
	}()
	p.run(ctx, a, "labels", &kinds.NodeLabels{Labels: map[string]string{"pool": "one", "example.test/empty": ""}})
	p.run(ctx, a, "taints", &kinds.NodeTaints{Taints: []kube.Taint{{Key: "os", Value: "linux", Effect: "NoSchedule"}}})
	p.run(ctx, a, "taints", &kinds.NodeTaints{Taints: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"},
		{Key: "gpu", Effect: "NoExecute"}}})
	done()
	if n := <-written; n == 0 {
		p.t.Error("the other writer wrote nothing")
	}
	p.must(a.SetLabels(ctx, testNode, nil, []string{"pool", "never-there"}))
	p.must(a.SetTaints(ctx, testNode, nil, []kube.Taint{{Key: "gpu", Effect: "NoExecute"}}))
	n, err := a.Node(ctx, testNode)
	p.must(err)
	if _, ok := n.Labels["pool"]; ok || n.Labels["kubernetes.io/os"] != "windows" ||
		n.Labels["example.test/empty"] != "" {
		p.t.Errorf("labels: %v", n.Labels)
	}
	var have []string
	for _, t := range n.Taints {
		have = append(have, t.Key+"="+t.Value+":"+t.Effect)
	}
	if s := strings.Join(have, " "); !strings.Contains(s, "os=windows:NoSchedule") ||
		!strings.Contains(s, "foreign=kept:NoSchedule") || strings.Contains(s, "gpu") {
		p.t.Errorf("taints: %s", s)
	}
	// From some to none, and from none to some.
	p.must(a.SetTaints(ctx, testNode, nil, n.Taints))
	if n, err = a.Node(ctx, testNode); err != nil || len(n.Taints) != 0 {
		p.t.Errorf("taints are left: %v, %v", n.Taints, err)
	}
	p.run(ctx, a, "taints", &kinds.NodeTaints{Taints: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}}})
	if err := a.SetTaints(ctx, testNode, []kube.Taint{{Key: "no key!", Effect: "NoSchedule"}}, nil); err == nil ||
		!strings.Contains(err.Error(), "no key!") {
		p.t.Errorf("a wrong taint: %v", err)
	}
	if err := a.SetLabels(ctx, "win-9", map[string]string{"a": "b"}, nil); !errors.Is(err, fs.ErrNotExist) {
		p.t.Errorf("labels of an absent Node: %v", err)
	}
	if err := a.SetTaints(ctx, "win-9", []kube.Taint{{Key: "a", Effect: "NoSchedule"}}, nil); !errors.Is(err,
		fs.ErrNotExist) {
		p.t.Errorf("taints of an absent Node: %v", err)
	}
	if err := a.SetLabels(ctx, testNode, map[string]string{"a": "not a label!"}, nil); err == nil {
		p.t.Error("a wrong label is accepted")
	}
}

func (p *controlPlane) readiness(ctx context.Context, a kube.API, kubelet *kubernetes.Clientset) {
	report := func(status corev1.ConditionStatus, reason, message string) {
		p.until(10*time.Second, "the status is written", func(ctx context.Context) error {
			n, err := kubelet.CoreV1().Nodes().Get(ctx, testNode, metav1.GetOptions{})
			if err != nil {
				return err
			}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: reason,
				Message: message, LastHeartbeatTime: metav1.Now()}}
			_, err = kubelet.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
			return err
		})
	}
	report(corev1.ConditionFalse, "KubeletNotReady", "cni plugin not initialized")
	p.waitFor(ctx, a, &kinds.NodeReady{}, "KubeletNotReady: cni plugin not initialized")
	report(corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	p.run(ctx, a, "ready", &kinds.NodeReady{})
}

// account creates an account, and tries what its token may and may not do.
func (p *controlPlane) account(ctx context.Context, a kube.API) {
	account := &kinds.ServiceAccount{Namespace: "kube-flannel", Name: "flannel", ClusterRole: "flannel",
		Rules: []kube.Rule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}}}}
	p.run(ctx, a, "account", account)
	account.Rules = append(account.Rules,
		kube.Rule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	p.run(ctx, a, "account", account)
	p.run(ctx, a, "proxy", &kinds.ServiceAccount{Namespace: "kube-system", Name: "kube-proxy",
		ClusterRole: "system:node-proxier"})
	e := &steps.Env{Node: testNode, Progress: func(event.StepProgress) {}}
	for _, bad := range []kinds.ServiceAccount{{Namespace: "kube-system", Name: "x", ClusterRole: "absent"},
		{Namespace: "kube-system", Name: "x", ClusterRole: "system:node-proxier",
			Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}} {
		if _, err := bad.Apply(ctx, a, e, steps.Change{}); err == nil {
			p.t.Errorf("%+v was made", bad)
		}
	}
	out := p.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: "kube-flannel", Name: "flannel", TTL: "1h"})
	name, err := whoami(ctx, p.as(rest.Config{BearerToken: out["token"]}))
	if err != nil || name != "system:serviceaccount:kube-flannel:flannel" {
		p.t.Errorf("the token is of %s, %v", name, err)
	}
	less, err := Open(ctx, Config{Kubeconfig: p.writeKubeconfig("less", &clientcmdapi.AuthInfo{Token: out["token"]})})
	p.must(err)
	p.until(10*time.Second, "the role counts", func(ctx context.Context) error {
		_, err := less.Node(ctx, testNode)
		return err
	})
	if _, err := less.BootstrapTokens(ctx, testNode); !errors.Is(err, kube.ErrForbidden) ||
		!strings.Contains(err.Error(), `cannot list resource "secrets"`) {
		p.t.Errorf("forbidden: %v", err)
	}
	none, err := Open(ctx, Config{Kubeconfig: p.writeKubeconfig("none",
		&clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"})})
	p.must(err)
	if _, err := none.Node(ctx, testNode); !errors.Is(err, kube.ErrUnauthorized) {
		p.t.Errorf("unauthorized: %v", err)
	}
	if _, err := (&kinds.ServiceAccountToken{Namespace: "kube-system", Name: "nobody"}).Apply(ctx, a, e,
		steps.Change{}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		p.t.Errorf("token of an absent account: %v", err)
	}
}

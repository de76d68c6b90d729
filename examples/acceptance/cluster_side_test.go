package acceptance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodejoin/examples/acceptance/internal/hns"
)

// manifestsPlan returns pairs for planWith: the parts of the example plan that ask for manifests and for a
// serving certificate. The plan gives the node's address: the controller reaches the machine on loopback, and
// nodejoin approves no certificate for an address that only the machine itself reports.
func manifestsPlan(t *testing.T) []string {
	t.Helper()
	return []string{
		"\nruntime \"containerd\"", "\nmanifests {\n  bootstrap       = true\n  flannel         = true\n  kube_proxy      " +
			"= true\n  runtime_classes = true\n}\n\nruntime \"containerd\"",
		`os     = "windows"`, "os     = \"windows\"\n  build  = \"10.0.20348\"",
		"    config = { ", "    config = { serverTLSBootstrap = true, ",
		`profile  = profile.windows`, fmt.Sprintf("profile  = profile.windows\n  management_ip = %q", nodeIP(t))}
}

// nodeIP returns the address of nodes on this machine.
func nodeIP(t *testing.T) string {
	t.Helper()
	ip, err := hns.NodeIP()
	if err != nil {
		t.Fatal(err)
	}
	return ip
}

// bareCluster removes what kubeadm made for joining nodes and creates a DaemonSet kube-proxy that runs on every
// node, so that the plan's manifests are needed.
func (b *bed) bareCluster(ctx context.Context) {
	b.t.Helper()
	for _, name := range []string{"kubeadm:kubelet-bootstrap", "kubeadm:node-autoapprove-bootstrap",
		"kubeadm:node-autoapprove-certificate-rotation"} {
		if err := b.cluster.Client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	b.createKubeProxy(ctx)
}

// createKubeProxy creates the DaemonSet of which a manifest sets one field.
func (b *bed) createKubeProxy(ctx context.Context) {
	b.t.Helper()
	labels := map[string]string{"k8s-app": "kube-proxy"}
	if _, err := b.cluster.Client.AppsV1().DaemonSets("kube-system").Create(ctx,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy"},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-proxy",
						Image: "registry.k8s.io/kube-proxy:v1.36.3"}}}}}}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// wantRefused: a join that cannot work is refused before the machine or the cluster is changed: when a Linux
// node announces another flannel than the plan's, when its ConfigMap has another network, and when another
// machine is the Ready Node of that name.
func (b *bed) wantRefused(ctx context.Context, args []string) {
	b.t.Helper()
	nodes, configs := b.cluster.Client.CoreV1().Nodes(), b.cluster.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	must := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1",
		Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan",
			"flannel.alpha.coreos.com/backend-data": `{"VNI":1,"VtepMAC":"0e:2a:00:00:00:01"}`}}}, metav1.CreateOptions{})
	must(err)
	_, err = configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-cfg"},
		Data: map[string]string{"net-conf.json": `{"Network": "10.200.0.0/16", "Backend": {"Type": "host-gw"}}`}},
		metav1.CreateOptions{})
	must(err)
	b.wantUntouched(ctx, args, "the cluster's pod network is another", `Node linux-1 announces the backend "vxlan"`,
		"ConfigMap kube-system/kube-flannel-cfg has the network 10.200.0.0/16")
	must(nodes.Delete(ctx, "linux-1", metav1.DeleteOptions{}))
	must(configs.Delete(ctx, "kube-flannel-cfg", metav1.DeleteOptions{}))

	_, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	must(err)
	now := metav1.Now()
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now,
			LastTransitionTime: now, Reason: "KubeletReady"}},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.9"}}}})
	must(err)
	_, err = nodes.PatchStatus(ctx, nodeName, status) // the controllers write the Node too
	must(err)
	b.wantUntouched(ctx, args, "another machine has the node's name", "is Ready at 203.0.113.9",
		"kubectl delete node "+nodeName)
	must(nodes.Delete(ctx, nodeName, metav1.DeleteOptions{}))
}

// wantUntouched: apply fails, says why and changes nothing.
func (b *bed) wantUntouched(ctx context.Context, args []string, says ...string) {
	b.t.Helper()
	r := apply(ctx, b.t, args, nil)
	if r.code != 1 || r.summary == nil || r.mutations() != 0 || len(r.changed()) != 0 {
		b.t.Errorf("want an error and no change: %s", r)
	}
	for _, want := range says {
		if !strings.Contains(unwrapped(r.stderr), want) {
			b.t.Errorf("the output does not say %q:\n%s", want, r.stderr)
		}
	}
	secrets, err := b.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
	if err != nil || len(secrets.Items) != 0 {
		b.t.Errorf("%d bootstrap tokens were minted, %v", len(secrets.Items), err)
	}
}

// wantManifests: the cluster has the objects of the plan's manifests, and nodejoin manages them.
func (b *bed) wantManifests(ctx context.Context) {
	b.t.Helper()
	proxy, err := b.cluster.Client.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	flannel, err := b.cluster.Client.AppsV1().DaemonSets("kube-flannel").Get(ctx, "kube-flannel-ds", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, d := range []*appsv1.DaemonSet{proxy, flannel} {
		if have := d.Spec.Template.Spec.NodeSelector[corev1.LabelOSStable]; have != "linux" {
			b.t.Errorf("DaemonSet %s runs on nodes with %s=%q", d.Name, corev1.LabelOSStable, have)
		}
		if !managedBy(d.ManagedFields, "nodejoin") {
			b.t.Errorf("DaemonSet %s: nodejoin manages no field of it", d.Name)
		}
	}
	conf, err := b.cluster.Client.CoreV1().ConfigMaps("kube-flannel").Get(ctx, "kube-flannel-cfg", metav1.GetOptions{})
	if err != nil || !strings.Contains(conf.Data["net-conf.json"], `"host-gw"`) ||
		!strings.Contains(conf.Data["net-conf.json"], `"10.244.0.0/16"`) {
		b.t.Errorf("flannel's net-conf.json is %v, %v", conf, err)
	}
	class, err := b.cluster.Client.NodeV1().RuntimeClasses().Get(ctx, "windows-2022", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if class.Handler != "runhcs-wcow-process" || class.Scheduling == nil ||
		class.Scheduling.NodeSelector[corev1.LabelWindowsBuild] != "10.0.20348" || len(class.Scheduling.Tolerations) != 1 {
		b.t.Errorf("RuntimeClass windows-2022: %+v", class)
	}
}

func managedBy(fields []metav1.ManagedFieldsEntry, manager string) bool {
	for _, f := range fields {
		if f.Manager == manager && f.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

// wantServing: the kubelet's own request for a serving certificate was approved. A request of the same user for
// another address is not, and a run waits until it is gone.
func (b *bed) wantServing(ctx context.Context, args []string) {
	b.t.Helper()
	requests := b.cluster.Client.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx,
		metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
	if err != nil {
		b.t.Fatal(err)
	}
	issued := 0
	for _, q := range list.Items {
		if q.Spec.Username == "system:node:"+nodeName && approved(&q) && len(q.Status.Certificate) > 0 {
			issued++
		}
	}
	if issued == 0 {
		b.t.Errorf("the kubelet has no serving certificate; its requests: %+v", list.Items)
	}
	_, err = b.asNode().CertificatesV1().CertificateSigningRequests().Create(ctx, b.foreignRequest(),
		metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	left := ""
	r := apply(ctx, b.t, args, func(e streamEvent, _ *os.Process) {
		if left != "" || e.Step != "serving_renewal" || e.Note == "" {
			return
		}
		left = e.Note
		if q, err := requests.Get(ctx, "csr-foreign", metav1.GetOptions{}); err != nil || approved(q) {
			b.t.Errorf("a request for another machine's address was approved, or is gone: %v", err)
		}
		if err := requests.Delete(ctx, "csr-foreign", metav1.DeleteOptions{}); err != nil {
			b.t.Error(err)
		}
	})
	if want := "csr-foreign is left alone: it asks for the address 203.0.113.9"; r.code != 0 ||
		!strings.Contains(left, want) {
		b.t.Errorf("the run saw %q, want %q: %s", left, want, r)
	}
}

func approved(q *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range q.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// asNode returns a client with the credentials of the node's kubelet.
func (b *bed) asNode() kubernetes.Interface {
	b.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", b.cluster.Kubeconfig)
	if err != nil {
		b.t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + nodeName, Groups: []string{"system:nodes"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.t.Fatal(err)
	}
	return client
}

// foreignRequest requests a certificate with the node's name and another machine's address. It is the newest
// request.
func (b *bed) foreignRequest() *certificatesv1.CertificateSigningRequest {
	b.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + nodeName,
			Organization: []string{"system:nodes"}},
			DNSNames: []string{nodeName}, IPAddresses: []net.IP{net.ParseIP("203.0.113.9")}}, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-foreign"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}}}
}

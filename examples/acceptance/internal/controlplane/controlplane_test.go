package controlplane

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"nodejoin/examples/acceptance/internal/components"
)

// TestStart holds that a Node gets a pod CIDR, and that cluster-info is signed for a
// token: the controllers work.
func TestStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir, err := components.Dir()
	if err != nil {
		t.Fatal(err)
	}
	src, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c, err := Start(ctx, Options{Components: components.New(dir, src), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	t.Logf("up after %.1fs", time.Since(began).Seconds())

	if _, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef",
			"usage-bootstrap-signing": "true"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var node *corev1.Node
	var info *corev1.ConfigMap
	for node == nil || node.Spec.PodCIDR == "" || info == nil || info.Data["jws-kubeconfig-abcdef"] == "" {
		if node, err = c.Client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{}); err != nil {
			t.Fatal(err, c.Logs())
		}
		if info, err = c.Client.CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info",
			metav1.GetOptions{}); err != nil {
			t.Fatal(err, c.Logs())
		}
		select {
		case <-ctx.Done():
			t.Fatalf("pod CIDR %q, cluster-info %v\n%s", node.Spec.PodCIDR, info.Data, c.Logs())
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Logf("pod CIDR %s after %.1fs", node.Spec.PodCIDR, time.Since(began).Seconds())
}

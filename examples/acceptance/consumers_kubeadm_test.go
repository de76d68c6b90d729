package acceptance_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
)

// kubeadmPlan is a plan of a Linux node that kubeadm joins; its argument is the version of Kubernetes.
const kubeadmPlan = `
cluster "c" {
  kubernetes = %q
  api_server = "https://10.0.0.10:6443"
  kubeconfig = "admin.conf"
  join "kubeadm" {}
}
runtime "containerd" { version = "2.2.1" }
network "none" {}
node "lin-1" {
  os = "linux"
  connection "ssh" { host = "10.0.0.21" }
}
artifact "kubernetes_node" {
  url    = "https://mirror.example/node.tar.gz"
  sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
artifact "containerd" {
  url    = "https://mirror.example/containerd.tar.gz"
  sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
artifact "runc" {
  url    = "https://mirror.example/runc"
  sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
`

// Files of kubeadmRoot.
const (
	joinFile      = "/etc/kubernetes/nodejoin-kubeadm.yaml"
	discoveryFile = "/etc/kubernetes/nodejoin-discovery.conf"
)

// kubeadmRoot is a folder that kubeadm takes for the root of a machine.
type kubeadmRoot struct {
	c   *consumers
	dir string
}

// kubeadm checks that kubeadm accepts the JoinConfiguration that nodejoin writes for its version, and that the oldest
// one can join with it, short of a kubelet. It accepts none of another version and no unknown field.
func (c *consumers) kubeadm(ctx context.Context) {
	r := kubeadmRoot{c, c.t.TempDir()}
	const token = "abcdef.0123456789abcdef"
	file := func(kubernetes string) string {
		return laterValue.ReplaceAllString(c.joinConfiguration(ctx, kubernetes), token)
	}
	oldest, newest := file(components.OldestKubeadm), file(components.Kubernetes)
	for _, version := range []string{"1.31.0", components.OldKubernetes, components.NewKubernetes} {
		if text := file(version); text != newest {
			c.t.Errorf("JoinConfiguration of %s is not that of %s:\n%s", version, components.Kubernetes, text)
		}
	}
	r.write(discoveryFile, c.discovery())
	const unknown, experimental = "noSuchField", "experimental API spec"
	for _, of := range []struct{ program, text, refused string }{
		{"kubeadm-1.30", oldest, ""},
		{"kubeadm-1.30", oldest + unknown + ": 1\n", unknown},
		{"kubeadm-1.30", newest, experimental},
		{"kubeadm-1.35", newest, ""},
		{"kubeadm", newest, ""},
		{"kubeadm", newest + unknown + ": 1\n", unknown},
	} {
		r.write(joinFile, of.text)
		out, err := r.run(ctx, of.program, "config", "validate", "--config", joinFile)
		if (err != nil) != (of.refused != "") || !strings.Contains(out, of.refused) ||
			strings.Contains(out, "deprecated") {
			c.t.Errorf("%s: %v, want it to say %q of\n%s\n%s", of.program, err, of.refused, of.text, tail(out))
		}
	}
	r.dryJoin(ctx, oldest, token)
}

// dryJoin: the oldest kubeadm joins a machine to a cluster of its version, as far as it does without changing
// anything. All its preflight checks are about the machine.
func (r kubeadmRoot) dryJoin(ctx context.Context, text, token string) {
	c := r.c
	r.write("/kubeadm.yaml", fmt.Sprintf("apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n"+
		"kubernetesVersion: v%s\ncontrolPlaneEndpoint: %s\nnetworking: {podSubnet: %s, serviceSubnet: %s}\n",
		components.OldestKubeadm, strings.TrimPrefix(c.bed.cluster.URL, "https://"), controlplane.PodCIDR,
		controlplane.ServiceCIDR))
	admin, err := os.ReadFile(c.bed.cluster.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	r.write("/admin.conf", string(admin))
	if out, err := r.run(ctx, "kubeadm-1.30", "init", "phase", "upload-config", "kubeadm", "--config", "/kubeadm.yaml",
		"--kubeconfig", "/admin.conf"); err != nil {
		c.t.Fatalf("kubeadm uploads no configuration: %v\n%s", err, tail(out))
	}
	id, secret, _ := strings.Cut(token, ".")
	if _, err := c.bed.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"},
	}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	r.write(joinFile, text)
	out, err := r.run(ctx, "kubeadm-1.30", "join", "--config", joinFile, "--dry-run", "--ignore-preflight-errors", "all")
	for _, want := range []string{"Writing kubelet configuration to file", "Writing kubelet environment file",
		"Would start the kubelet"} {
		if err != nil || !strings.Contains(out, want) {
			c.t.Fatalf("a dry join by kubeadm: %v, want it to say %q:\n%s", err, want, out)
		}
	}
}

// joinConfiguration is the file that `nodejoin render` writes for a version of Kubernetes.
func (c *consumers) joinConfiguration(ctx context.Context, kubernetes string) string {
	c.t.Helper()
	args := writePlan(c.t, fmt.Sprintf(kubeadmPlan, kubernetes))
	out := filepath.Join(c.t.TempDir(), "out")
	released(c.t).must(ctx, c.t, append([]string{"render", "--out", out}, args...)...)
	text, err := os.ReadFile(filepath.Join(out, "lin-1", "files", filepath.FromSlash(joinFile)))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// discovery is a kubeconfig with the API server, its CA and no credentials, as nodejoin writes it beside the
// JoinConfiguration.
func (c *consumers) discovery() string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: [{name: none, user: {}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: none}}]\n"+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\n", c.bed.cluster.URL,
		base64.StdEncoding.EncodeToString(c.bed.cluster.CA))
}

func (r kubeadmRoot) write(path, text string) {
	r.c.t.Helper()
	to := filepath.Join(r.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		r.c.t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
		r.c.t.Fatal(err)
	}
}

func (r kubeadmRoot) run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s did not end within a minute", program))
	defer cancel()
	out, err := exec.CommandContext(ctx, componentSet(r.c.t).Bin(program),
		append([]string{"--rootfs", r.dir}, args...)...).CombinedOutput()
	return string(out), err
}

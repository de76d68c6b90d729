package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodejoin/examples/acceptance/internal/components"
)

// kubeadmConfig is what the administrator gives to kubeadm init.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %[1]s, bindPort: %[2]d}
nodeRegistration: {name: control-plane, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%[3]s
controlPlaneEndpoint: %[1]s:%[2]d
networking: {podSubnet: %[4]s, serviceSubnet: %[5]s}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
`

// The phases of kubeadm init that run before the API server does, and those after. Left out are preflight,
// kubelet-start, wait-control-plane (which first asks the kubelet), mark-control-plane and kubelet-finalize, which are
// about the machine's own kubelet; upload-certs, which does nothing by default; and show-join-command, which prints.
// The pods of the addons wait for a scheduler: there is none, as nobody has their images here.
var (
	phasesBefore = []string{"certs", "kubeconfig", "etcd", "control-plane"}
	phasesAfter  = []string{"upload-config", "bootstrap-token", "addon"}
	phasesOut    = []string{"preflight", "kubelet-start", "wait-control-plane", "upload-certs", "mark-control-plane",
		"kubelet-finalize", "show-join-command"}
)

// initByKubeadm has the real kubeadm init make the cluster: keys, kubeconfigs, the static pods of etcd, API server and
// controllers, what nodes need to join, CoreDNS and kube-proxy. Its root is a folder. The programs of the static pods
// run as processes with the command lines that kubeadm wrote, as there are no images.
func (c *Cluster) initByKubeadm(ctx context.Context) error {
	root := c.path("root")
	config := filepath.Join(root, "kubeadm.yaml")
	err := errors.Join(os.MkdirAll(filepath.Join(root, "var", "lib", "etcd"), 0o700), os.WriteFile(config,
		fmt.Appendf(nil, kubeadmConfig, c.opts.Address, c.port, components.Kubernetes, PodCIDR, ServiceCIDR), 0o600))
	if err != nil {
		return err
	}
	if err := c.kubeadm(ctx, root, slices.Concat(phasesAfter, phasesOut)); err != nil {
		return err
	}
	if err := c.trustKubeadm(filepath.Join(root, "etc", "kubernetes")); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if err := c.staticPod(root, name); err != nil {
			return err
		}
	}
	if err := c.awaitAPIServer(ctx); err != nil {
		return err
	}
	if err := c.kubeadm(ctx, root, slices.Concat(phasesBefore, phasesOut)); err != nil {
		return err
	}
	// The token that kubeadm made for an administrator is used by nobody here: nodejoin makes its own.
	return c.Client.CoreV1().Secrets(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
}

func (c *Cluster) kubeadm(ctx context.Context, root string, skip []string) error {
	cmd := exec.CommandContext(ctx, c.opts.Components.Bin("kubeadm"), "init", "--rootfs", root, "--config",
		"/kubeadm.yaml", "--skip-token-print", "--skip-phases", strings.Join(skip, ","))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubeadm init without %v: %w\n%s", skip, err, out)
	}
	return nil
}

// trustKubeadm takes the CA and the administrator's kubeconfig that kubeadm made.
func (c *Cluster) trustKubeadm(dir string) error {
	c.Kubeconfig = filepath.Join(dir, "admin.conf")
	text, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("kubeadm's ca.crt is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	c.ca = &authority{dir: c.dir, cert: cert, pem: text} // its key is kubeadm's
	c.CA, c.CAHash = text, c.ca.hash()
	return nil
}

// staticPod runs the program of one of kubeadm's static pods.
func (c *Cluster) staticPod(root, name string) error {
	text, err := os.ReadFile(filepath.Join(root, "etc", "kubernetes", "manifests", name+".yaml"))
	if err != nil {
		return err
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		return err
	}
	if n := len(pod.Spec.Containers); n != 1 || pod.Spec.Containers[0].Command[0] != name {
		return fmt.Errorf("the static pod %s has %d containers, or another program", name, n)
	}
	args := pod.Spec.Containers[0].Command[1:]
	for i := range args {
		for _, dir := range []string{"/etc/kubernetes", "/var/lib/etcd"} {
			args[i] = strings.ReplaceAll(args[i], "="+dir, "="+root+dir)
		}
	}
	return c.run(name, args...)
}

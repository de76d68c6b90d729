package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
)

// Machine is a machine for a control plane of kubeadm's, with systemd, containerd, kubeadm, the kubelet as a service
// that is not yet configured, and the images that kubeadm names.
type Machine interface {
	IP() string
	Path(file string) string // on this machine
	Run(ctx context.Context, argv ...string) (output string, err error)
}

// Programs of kubeadm on the machine, of components.OldKubernetes and components.Kubernetes.
const (
	OlderKubeadm = "kubeadm-1.35"
	newerKubeadm = "kubeadm"
)

// NewerKubeletSetting is a line that a cluster of kubeadm's has among the settings of its kubelets after
// UpgradeByKubeadm, which kubelets of components.OldKubernetes do not know.
const NewerKubeletSetting = "memoryReservationPolicy: None"

// kubeadmConfig is what the administrator gives to kubeadm init. Machines here may have control groups v1, which
// kubeadm refuses by its check SystemVerification, whatever the kubelet is told. The gate has nodes get the socket of
// the runtime in a file of flags, as by default before 1.34; newer versions do not have it (cmd/kubeadm/app/features).
// kube-proxy leaves the size of the table of connections alone, which a network namespace cannot change.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %[1]s}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  ignorePreflightErrors: [SystemVerification]
patches: {directory: /etc/kubeadm}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%[2]s
controlPlaneEndpoint: %[1]s:6443
networking: {podSubnet: %[3]s, serviceSubnet: %[4]s}
featureGates: {NodeLocalCRISocket: false}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
`

// kubeletPatch is for the kubelet of the control plane alone. It may have control groups v1, swap, and a nearly full
// disk, from which it would remove images that no pod uses.
const kubeletPatch = `{"failCgroupV1": false, "failSwapOn": false, "imageGCHighThresholdPercent": 100,
	"evictionHard": {"nodefs.available": "1Mi", "imagefs.available": "1Mi"}}`

// initByKubeadm has the real kubeadm init make the cluster, with all its phases: the kubelet of the machine runs etcd,
// API server, controllers and scheduler in containers, and kubeadm waits for them. Their images are named after
// components.OldKubernetes, and the programs in them are of components.Kubernetes.
func (c *Cluster) initByKubeadm(ctx context.Context) error {
	const dir = "/etc/kubeadm"
	m := c.opts.Kubeadm
	config := fmt.Appendf(nil, kubeadmConfig, m.IP(), components.OldKubernetes, PodCIDR, ServiceCIDR)
	if err := errors.Join(os.MkdirAll(m.Path(dir), 0o755), os.WriteFile(m.Path(dir+"/init.yaml"), config, 0o600),
		os.WriteFile(m.Path(dir+"/kubeletconfiguration+strategic.json"), []byte(kubeletPatch), 0o600)); err != nil {
		return err
	}
	if _, err := m.Run(ctx, OlderKubeadm, "init", "--config", dir+"/init.yaml", "--skip-token-print"); err != nil {
		return err
	}
	c.URL = fmt.Sprintf("https://%s:6443", m.IP())
	if err := c.trustKubeadm(); err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx); err != nil {
		return err
	}
	// The token that kubeadm made for an administrator is used by nobody here: nodejoin makes its own.
	return c.Client.CoreV1().Secrets(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
}

// UpgradeByKubeadm has the real kubeadm upgrade apply upgrade what nodes read, after the administrator has removed the
// gate and added NewerKubeletSetting. Of its phases it leaves out preflight, which wants a network for pods on the
// control plane, and control-plane, whose programs are of components.Kubernetes from the start.
func (c *Cluster) UpgradeByKubeadm(ctx context.Context) error {
	if err := errors.Join(c.editConfig(ctx, "kubeadm-config", "ClusterConfiguration", func(text string) string {
		return strings.Replace(text, "featureGates:\n  NodeLocalCRISocket: false\n", "", 1)
	}), c.editConfig(ctx, "kubelet-config", "kubelet", func(text string) string {
		return text + NewerKubeletSetting + "\n"
	})); err != nil {
		return err
	}
	_, err := c.opts.Kubeadm.Run(ctx, newerKubeadm, "upgrade", "apply", "v"+components.Kubernetes, "--yes",
		"--skip-phases=preflight,control-plane")
	return err
}

func (c *Cluster) editConfig(ctx context.Context, name, key string, edit func(string) string) error {
	maps := c.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	config, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	text := edit(config.Data[key])
	if text == config.Data[key] {
		return fmt.Errorf("%s has nothing to change:\n%s", name, text)
	}
	config.Data[key] = text
	_, err = maps.Update(ctx, config, metav1.UpdateOptions{})
	return err
}

// trustKubeadm copies the CA and the administrator's kubeconfig that kubeadm made.
func (c *Cluster) trustKubeadm() error {
	const dir = "/etc/kubernetes/"
	text, err := os.ReadFile(c.opts.Kubeadm.Path(dir + "admin.conf"))
	if err != nil {
		return err
	}
	c.Kubeconfig = c.path("admin.conf")
	if err := os.WriteFile(c.Kubeconfig, text, 0o600); err != nil {
		return err
	}
	if text, err = os.ReadFile(c.opts.Kubeadm.Path(dir + "pki/ca.crt")); err != nil {
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

// kubeadmLogs is the tail of the log of the kubelet, and of each container.
func (c *Cluster) kubeadmLogs() string {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	var b strings.Builder
	// On an error the output is what there is.
	out, _ := c.opts.Kubeadm.Run(ctx, "journalctl", "--unit=kubelet", "--lines=40", "--output=cat", "--no-pager")
	logTail(&b, "kubelet", []byte(out))
	logs, _ := filepath.Glob(c.opts.Kubeadm.Path("/var/log/pods") + "/*/*/*.log") // the pattern is well-formed
	for _, name := range logs {
		if text, err := os.ReadFile(name); err == nil {
			logTail(&b, filepath.Base(filepath.Dir(name)), text)
		}
	}
	return b.String()
}

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

// What the administrator writes on the machine.
const (
	kubeadmDir  = "/etc/kubeadm"
	kubeadmInit = kubeadmDir + "/init.yaml"
)

// kubeadmConfig is what the administrator gives to kubeadm init. Machines here may have control groups v1, which
// kubeadm refuses by its check SystemVerification, whatever the kubelet is told.
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
featureGates: {%[5]s}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
%[6]s
`

// Kubeadm is one version of it on the machine, and what an administrator may set with it.
type Kubeadm struct {
	program, version string
	gates            string // of ClusterConfiguration
	kubelet          string // of KubeletConfiguration
}

// OlderKubeadm has nodes keep the socket of the runtime in the file of flags, as kubeadm did by default before 1.34.
// NewerKubeadm has no such choice (cmd/kubeadm/app/features), and a setting of kubelets that the older one does not
// know.
var (
	OlderKubeadm = Kubeadm{"kubeadm-1.35", components.OldKubernetes, "NodeLocalCRISocket: false", ""}
	NewerKubeadm = Kubeadm{"kubeadm", components.Kubernetes, "", NewerKubeletSetting}
)

// NewerKubeletSetting is a line of the kubelet's settings that only NewerKubeadm writes.
const NewerKubeletSetting = "memoryReservationPolicy: None"

// kubeletPatch is for the kubelet of the control plane alone. It may have control groups v1, swap, and a nearly full
// disk, from which it would remove images that no pod uses.
const kubeletPatch = `{"failCgroupV1": false, "failSwapOn": false, "imageGCHighThresholdPercent": 100,
	"evictionHard": {"nodefs.available": "1Mi", "imagefs.available": "1Mi"}}`

// initByKubeadm has the real kubeadm init make the cluster, with all its phases: the kubelet of the machine runs etcd,
// API server, controllers and scheduler in containers, and kubeadm waits for them.
func (c *Cluster) initByKubeadm(ctx context.Context) error {
	m := c.opts.Kubeadm
	if err := errors.Join(os.MkdirAll(m.Path(kubeadmDir), 0o755), c.configure(NewerKubeadm),
		os.WriteFile(m.Path(kubeadmDir+"/kubeletconfiguration+strategic.json"), []byte(kubeletPatch), 0o600)); err != nil {
		return err
	}
	if _, err := m.Run(ctx, "kubeadm", "init", "--config", kubeadmInit, "--skip-token-print"); err != nil {
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

// UploadByKubeadm has one kubeadm tell nodes how the cluster is configured. For the older one it is then as before the
// control plane was upgraded, for the newer one as kubeadm upgrade apply leaves it.
func (c *Cluster) UploadByKubeadm(ctx context.Context, by Kubeadm) error {
	if err := c.configure(by); err != nil {
		return err
	}
	_, err := c.opts.Kubeadm.Run(ctx, by.program, "init", "phase", "upload-config", "all", "--config", kubeadmInit)
	return err
}

// configure writes the file for kubeadm init.
func (c *Cluster) configure(by Kubeadm) error {
	m := c.opts.Kubeadm
	return os.WriteFile(m.Path(kubeadmInit), fmt.Appendf(nil, kubeadmConfig, m.IP(), by.version, PodCIDR, ServiceCIDR,
		by.gates, by.kubelet), 0o600)
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

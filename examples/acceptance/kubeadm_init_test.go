package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/machine"
)

const controlPlaneNode = "cp-1"

// newKubeadmBed is newLinuxBed with a cluster that the real kubeadm init makes on a machine beside.
func newKubeadmBed(ctx context.Context, t *testing.T) *linuxBed {
	t.Helper()
	b := &linuxBed{t: t, name: linuxNode, dir: t.TempDir()}
	b.machine = startMachine(ctx, t, machine.Options{Dir: t.TempDir(), Name: linuxNode, Systemd: true,
		Network: linuxNetwork})
	m := startMachine(ctx, t, machine.Options{Dir: t.TempDir(), Name: controlPlaneNode, Systemd: true,
		Beside: b.machine})
	began := time.Now()
	prepareForKubeadm(ctx, t, m)
	prepared := time.Since(began)
	b.controlPlane = m
	b.startCluster(ctx, controlplane.Options{Kubeadm: m})
	t.Logf("kubeadm init after %.1fs, of which %.1fs were for images and programs", time.Since(began).Seconds(),
		prepared.Seconds())
	wantControlPlane(ctx, t, b.cluster, m)
	b.startSSHD(ctx)
	// Without a name server the pull of an image would fail only after its timeout, and a pod cannot end meanwhile.
	if err := os.WriteFile(b.machine.Path("/etc/hosts"), []byte("127.0.0.1 localhost registry.k8s.io\n"+
		b.machine.IP()+" "+linuxNode+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// kubeadm's kube-proxy has these as volumes. The kubelet makes the file, which nobody removes before a boot; the
	// folder is on each machine whose kernel has modules.
	b.write("/run/xtables.lock", nil)
	if err := os.MkdirAll(b.machine.Path("/usr/lib/modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// controlPlaneFiles are what an administrator writes on a machine before kubeadm init. The units do what those of the
// packages of containerd and kubeadm do.
func controlPlaneFiles(ip, pause string) map[string]string {
	return map[string]string{
		"/etc/hosts": "127.0.0.1 localhost\n" + ip + " " + controlPlaneNode + "\n",
		// As linuxHost says, there may be no right to lower oom_score_adj.
		"/etc/containerd/config.toml": `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '` + pause + `'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
options = { SystemdCgroup = true }
`,
		"/etc/systemd/system/containerd.service": `[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
LimitNOFILE=infinity
[Install]
WantedBy=multi-user.target
`,
		"/etc/systemd/system/kubelet.service": `[Unit]
After=containerd.service
StartLimitIntervalSec=0
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
	--kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
`,
	}
}

// prepareForKubeadm does on a machine what comes before kubeadm init: containerd runs, the kubelet and kubeadm are
// installed, IPv4 is forwarded, and there are the images of the control plane. There is the newer kubeadm, too.
func prepareForKubeadm(ctx context.Context, t *testing.T, m *machine.Machine) {
	t.Helper()
	set := componentSet(t)
	images := kubeadmImages(ctx, t, components.OldKubernetes)
	for name, component := range map[string]string{"containerd": "containerd", "runc": "runc", "ctr": "ctr",
		"containerd-shim-runc-v2": "containerd-shim-runc-v2", "kubelet": "kubelet-1.35", "kubeadm": "kubeadm",
		controlplane.OlderKubeadm: controlplane.OlderKubeadm} {
		cp := exec.CommandContext(ctx, "cp", set.Bin(component), m.Path("/usr/local/bin/"+name))
		if out, err := cp.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for file, text := range controlPlaneFiles(m.IP(), images["pause"].image) {
		if err := errors.Join(os.MkdirAll(m.Path(path.Dir(file)), 0o755),
			os.WriteFile(m.Path(file), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"sysctl -w net.ipv4.ip_forward=1", "systemctl daemon-reload",
		"systemctl enable --now containerd", "systemctl enable kubelet"} {
		if _, err := m.Run(ctx, strings.Fields(command)...); err != nil {
			t.Fatal(err)
		}
	}
	importPrograms(ctx, t, m, slices.Collect(maps.Values(images))...)
}

// wantControlPlane: kubeadm init has marked the Node, whose kubelet runs the control plane in containers and has a
// certificate that it renews itself.
func wantControlPlane(ctx context.Context, t *testing.T, c *controlplane.Cluster, m *machine.Machine) {
	t.Helper()
	const role = "node-role.kubernetes.io/control-plane"
	node, err := c.Client.CoreV1().Nodes().Get(ctx, controlPlaneNode, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, labelled := node.Labels[role]
	if !labelled || !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == role }) {
		t.Errorf("the Node is not marked as a control plane: labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		until(ctx, t, "the static pod "+name, func() error {
			pod, err := c.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, name+"-"+controlPlaneNode,
				metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				err = fmt.Errorf("it is not ready: %+v", pod.Status)
			}
			return err
		})
	}
	const own = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	text, err := os.ReadFile(m.Path("/etc/kubernetes/kubelet.conf"))
	if err != nil || !strings.Contains(string(text), own) {
		t.Errorf("the kubelet does not use %s: %v", own, err)
	}
}

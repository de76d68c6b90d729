package acceptance_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestMixedKubeadm: the real kubeadm joins a Linux machine, whose services systemd runs, and a Windows machine under
// Wine by one plan. After a leave nothing of kubeadm's is on the Linux machine.
func TestMixedKubeadm(t *testing.T) {
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, true)
	before := b.snapshot()
	w := newBed(ctx, t, b.cluster)
	const token = `join "bootstrap_token" { ttl = "15m" }`
	// Machines here may have cgroups v1, which kubeadm refuses by this check; the plan lets the kubelet have them.
	const kubeadm = `join "kubeadm" { ignore_preflight_errors = ["SystemVerification"] }`
	head := b.head()
	if !strings.Contains(head, token) {
		t.Fatalf("the plan has no join:\n%s", head)
	}
	args := writePlan(t, strings.Replace(head, token, kubeadm, 1), b.linuxHost(), w.windowsHost())
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs with %d mutating calls", first.took.Seconds(), first.mutations())
	w.wantJoined(ctx)
	w.wantNoCredentialsLeft(ctx)
	b.wantLinuxNode(ctx, "systemd")
	for path, want := range map[string]string{
		"/var/lib/nodejoin/kubeadm.log":       "This node has joined the cluster",
		"/var/lib/kubelet/config.yaml":        "staticPodPath:",
		"/var/lib/kubelet/kubeadm-flags.env":  "KUBELET_KUBEADM_ARGS=",
		"/etc/systemd/system/kubelet.service": "--config-dir=/var/lib/kubelet/config.conf.d",
	} {
		if text, err := os.ReadFile(b.machine.Path(path)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v\n%s", path, want, err, tail(string(text)))
		}
	}
	for _, path := range []string{"/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/nodejoin-kubeadm.yaml",
		"/etc/kubernetes/nodejoin-discovery.conf"} {
		if _, err := os.Stat(b.machine.Path(path)); err == nil {
			t.Errorf("%s, which holds the token, is there after the join", path)
		}
	}
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	b.wantLeft(ctx, args, before)
}

package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// TestMixedKubeadm: the real kubeadm init makes a cluster on a machine, and by one plan the real kubeadm joins a Linux
// machine, whose services systemd runs, and a Windows machine under Wine to it. After a leave nothing of kubeadm's is
// on the Linux machine, which then joins by user data.
func TestMixedKubeadm(t *testing.T) {
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newKubeadmBed(ctx, t)
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
	wantAddons(ctx, t, b.cluster)
	wantNothing(ctx, t, args)
	wantUpgradedByKubeadm(ctx, t, args, map[string]string{
		b.machine.Path("/var/lib/nodejoin/record.json"):    b.machine.Path("/var/lib/nodejoin/kubeadm.log"),
		w.host.Path(`C:\ProgramData\nodejoin\record.json`): w.host.Path(`C:\var\log\kubelet\kubeadm.log`)})
	b.wantLeft(ctx, args, before)
	b.joinsByUserData(ctx, writePlan(t, strings.Replace(head, token, kubeadm, 1), b.linuxHost()))
}

// joinsByUserData: kubeadm joins the machine with the certificate of user data, which is gone from it afterwards.
func (b *linuxBed) joinsByUserData(ctx context.Context, args []string) {
	b.t.Helper()
	const site = "/opt/nodejoin-site"
	program := filepath.Base(string(released(b.t)))
	text, err := os.ReadFile(string(released(b.t)))
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(site+"/"+program, text)
	if err := os.Chmod(b.machine.Path(site+"/"+program), 0o700); err != nil {
		b.t.Fatal(err)
	}
	bundle := b.machine.Path(site + "/site.tar")
	released(b.t).must(ctx, b.t, append([]string{"lock"}, args...)...)
	released(b.t).must(ctx, b.t, append([]string{"bundle", "--no-images", "-o", bundle}, args...)...)
	released(b.t).must(ctx, b.t, "user-data", bundle, b.name, "--for", "cloud-init", "--from", site, "-o", b.userData())
	own, _ := b.wantAccess(ctx, b.userData())
	b.wantOwnNode(ctx, own)
	b.write(site+"/join.json", b.firstBootFile(b.userData()))
	out, err := b.machine.Run(ctx, site+"/"+program, "first-boot", site+"/join.json")
	if noSecret(b.t, "the first boot", []byte(out)); err != nil || !strings.Contains(out, "ok kubeadm_join ") {
		b.t.Fatalf("%v\n%s", err, tail(out))
	}
	b.wantLinuxNode(ctx, "systemd")
	keyOf(own).wantNowhere(ctx, b.t, b.machine)
}

// wantAddons: kubeadm init has made CoreDNS at the address that nodes ask, and a kube-proxy with a pod on each Linux
// node and none on the Windows one.
func wantAddons(ctx context.Context, t *testing.T, c *controlplane.Cluster) {
	t.Helper()
	dns, err := c.Client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
	if err != nil || dns.Spec.ClusterIP != controlplane.DNSIP {
		t.Errorf("the service kube-dns has %s, want %s: %v", dns.Spec.ClusterIP, controlplane.DNSIP, err)
	}
	deployments := c.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	if _, err := deployments.Get(ctx, "coredns", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	until(ctx, t, "the pods of kube-proxy", func() error {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
			metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"})
		if err != nil {
			return err
		}
		var on []string
		for _, p := range pods.Items {
			on = append(on, p.Spec.NodeName)
		}
		if slices.Sort(on); !slices.Equal(on, []string{controlPlaneNode, linuxNode}) {
			return fmt.Errorf("they are on %v", on)
		}
		return nil
	})
}

// wantUpgradedByKubeadm: kubeadm upgrade node runs on machines whose records, like those of an older nodejoin, do not
// say which version of kubeadm wrote the kubelet's settings; logs has kubeadm's log for each record.
func wantUpgradedByKubeadm(ctx context.Context, t *testing.T, args []string, logs map[string]string) {
	t.Helper()
	for record := range logs {
		text, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		var r, archives map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(text, &r), json.Unmarshal(r["archives"], &archives)); err != nil {
			t.Fatal(err)
		}
		if _, ok := archives["kubeadm_join"]; !ok {
			t.Fatalf("%s does not say which kubeadm wrote the kubelet's settings: %s", record, r["archives"])
		}
		delete(archives, "kubeadm_join")
		if r["archives"], err = json.Marshal(archives); err != nil {
			t.Fatal(err)
		}
		if text, err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(record, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustApply(ctx, t, args)
	for _, log := range logs {
		const want = "The kubelet configuration for this node was successfully upgraded"
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v\n%s", log, want, err, tail(string(text)))
		}
	}
	wantNothing(ctx, t, args)
}

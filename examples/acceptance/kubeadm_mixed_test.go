package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/mirror"
)

// TestMixedKubeadm: the real kubeadm init makes a cluster on a machine, and by one plan the real kubeadm joins a Linux
// machine, whose services systemd runs, and a Windows machine under Wine to it. After the cluster the plan is
// upgraded, and kubeadm upgrade node of the newer version runs on both. On the Linux node kubeadm's pod of kube-proxy
// makes the rules of services, and nothing of nodejoin's. After a leave nothing of kubeadm's is on the
// Linux machine, which then joins by user data.
func TestMixedKubeadm(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
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
	head = strings.Replace(head, token, kubeadm, 1)
	linux := b.linuxHostWithoutProxy()
	args := writePlan(t, head, linux, w.windowsHost())
	older := writePlan(t, ofOldKubernetes(t, head, linux, w.windowsHost()))
	first := mustApply(ctx, t, older)
	t.Logf("joined after %.1fs with %d mutating calls", first.took.Seconds(), first.mutations())
	w.wantJoined(ctx)
	w.wantKubelet(ctx, components.OldKubernetes)
	w.wantNoCredentialsLeft(ctx)
	b.bringProxy(ctx, components.OldKubernetes)
	b.wantLinuxNodeOf(ctx, components.OldKubernetes, "systemd")
	files := []kubeadmFiles{b.kubeadmFiles(), w.kubeadmFiles()}
	for _, f := range files {
		f.wantJoined(t)
	}
	if text, err := os.ReadFile(b.machine.Path("/etc/systemd/system/kubelet.service")); err != nil ||
		!strings.Contains(string(text), "--config-dir=/var/lib/kubelet/config.conf.d") {
		t.Errorf("the unit of the kubelet has no folder for the plan's settings: %v\n%s", err, text)
	}
	for _, path := range []string{"/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/nodejoin-kubeadm.yaml",
		"/etc/kubernetes/nodejoin-discovery.conf"} {
		if _, err := os.Stat(b.machine.Path(path)); err == nil {
			t.Errorf("%s, which holds the token, is there after the join", path)
		}
	}
	wantAddons(ctx, t, b.cluster)
	wantNothing(ctx, t, older)

	newer := addonImages(ctx, t, components.Kubernetes)
	importPrograms(ctx, t, b.controlPlane, newer...)
	importPrograms(ctx, t, b.machine, newer...)
	if err := b.cluster.UpgradeByKubeadm(ctx); err != nil {
		t.Fatal(err)
	}
	upgrade := mustApply(ctx, t, args)
	t.Logf("upgraded after %.1fs with %d mutating calls", upgrade.took.Seconds(), upgrade.mutations())
	for _, f := range files {
		f.wantUpgraded(t)
	}
	w.wantJoined(ctx)
	w.wantKubelet(ctx, components.Kubernetes)
	b.wantLinuxNode(ctx, "systemd")
	b.wantProxyPods(ctx, components.Kubernetes)
	b.wantOneProxy(ctx, args, writePlan(t, head, b.linuxHost()))
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	b.wantLeft(ctx, args, before)
	b.joinsByUserData(ctx, writePlan(t, head, linux))
}

// ofOldKubernetes returns a plan with components.OldKubernetes instead of components.Kubernetes.
func ofOldKubernetes(t *testing.T, parts ...string) string {
	t.Helper()
	plan := strings.Join(parts, "\n")
	replace := func(old, by string) {
		if strings.Count(plan, old) != 1 {
			t.Fatalf("the plan does not have exactly one %q:\n%s", old, plan)
		}
		plan = strings.Replace(plan, old, by, 1)
	}
	replace(fmt.Sprintf("kubernetes   = %q", components.Kubernetes),
		fmt.Sprintf("kubernetes   = %q", components.OldKubernetes))
	for goos, others := range map[string]string{"linux": mirror.OthersLinux, "windows": mirror.Others} {
		dir, artifacts, err := mirror.Make(t.Context(), componentSet(t), others)
		if err != nil {
			t.Fatal(err)
		}
		_, own, err := mirror.Make(t.Context(), componentSet(t), goos)
		if err != nil {
			t.Fatal(err)
		}
		old := artifacts[mirror.OldKubernetesNode]
		replace(fmt.Sprintf("sha256 = %q", own[mirror.KubernetesNode].SHA256),
			fmt.Sprintf("sha256 = %q\n  file   = %q", old.SHA256, filepath.Join(dir, old.File)))
	}
	return plan
}

// kubeadmFiles are what kubeadm writes on a node, as paths of this machine.
type kubeadmFiles struct {
	log      string // of kubeadm
	kubelet  string // the kubelet's folder
	backups  string // of its settings, a pattern
	instance string // what instance-config.yaml says
	record   string // nodejoin's
}

func (b *linuxBed) kubeadmFiles() kubeadmFiles {
	return kubeadmFiles{
		log: b.machine.Path("/var/lib/nodejoin/kubeadm.log"), kubelet: b.machine.Path("/var/lib/kubelet"),
		backups:  b.machine.Path("/etc/kubernetes/tmp") + "/kubeadm-kubelet-config*/config.yaml",
		instance: "unix:///run/containerd/containerd.sock", record: b.machine.Path("/var/lib/nodejoin/record.json")}
}

func (b *bed) kubeadmFiles() kubeadmFiles {
	return kubeadmFiles{log: b.host.Path(`C:\var\log\kubelet\kubeadm.log`), kubelet: b.host.Path(`C:\var\lib\kubelet`),
		backups:  b.host.Path(`C:\etc\kubernetes\tmp`) + "/kubeadm-kubelet-config*/config.yaml",
		instance: "npipe:////./pipe/containerd-containerd", record: b.host.Path(`C:\ProgramData\nodejoin\record.json`)}
}

// The socket of the runtime is among the flags that the older kubeadm writes, and in a file of its own with the newer.
const (
	runtimeFlag  = "--container-runtime-endpoint="
	instanceFile = "instance-config.yaml"
)

// wantJoined: kubeadm join of components.OldKubernetes has written the files.
func (f kubeadmFiles) wantJoined(t *testing.T) {
	t.Helper()
	f.wantText(t, f.log, "This node has joined the cluster", true)
	f.wantText(t, f.kubelet+"/config.yaml", "staticPodPath:", true)
	f.wantText(t, f.kubelet+"/config.yaml", controlplane.NewerKubeletSetting, false)
	f.wantText(t, f.kubelet+"/kubeadm-flags.env", runtimeFlag+f.instance, true)
	if _, err := os.Stat(f.kubelet + "/" + instanceFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s/%s: %v; want none", f.kubelet, instanceFile, err)
	}
	f.wantNoted(t, components.OldKubernetes)
}

// wantUpgraded: kubeadm upgrade node of components.Kubernetes has written the files again, and kept those of before.
func (f kubeadmFiles) wantUpgraded(t *testing.T) {
	t.Helper()
	f.wantText(t, f.log, "The kubelet configuration for this node was successfully upgraded", true)
	f.wantText(t, f.kubelet+"/config.yaml", controlplane.NewerKubeletSetting, true)
	f.wantText(t, f.kubelet+"/config.yaml", f.instance, true)
	f.wantText(t, f.kubelet+"/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=", true)
	f.wantText(t, f.kubelet+"/kubeadm-flags.env", runtimeFlag, false)
	f.wantText(t, f.kubelet+"/"+instanceFile, f.instance, true)
	f.wantNoted(t, components.Kubernetes)
	backups, _ := filepath.Glob(f.backups) // the pattern is well-formed
	if len(backups) != 1 {
		t.Fatalf("kubeadm keeps %d files %s, want one", len(backups), f.backups)
	}
	f.wantText(t, backups[0], controlplane.NewerKubeletSetting, false)
}

// wantNoted: nodejoin has noted which kubeadm wrote the kubelet's settings.
func (f kubeadmFiles) wantNoted(t *testing.T, version string) {
	t.Helper()
	text, err := os.ReadFile(f.record)
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Archives map[string]struct{ Digest string }
	}
	if err := json.Unmarshal(text, &record); err != nil || record.Archives["kubeadm_join"].Digest != version {
		t.Errorf("%s has %+v, want kubeadm %s: %v", f.record, record.Archives["kubeadm_join"], version, err)
	}
}

func (f kubeadmFiles) wantText(t *testing.T, path, text string, there bool) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(content), text) != there {
		t.Errorf("%s: %v; has %q: %v, want the opposite:\n%s", path, err, text, there, tail(string(content)))
	}
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
	b.bringProxy(ctx, components.Kubernetes)
	b.wantLinuxNode(ctx, "systemd")
	keyOf(own).wantNowhere(ctx, b.t, b.machine)
}

// wantAddons: kubeadm init has made CoreDNS at the address that nodes ask.
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
}

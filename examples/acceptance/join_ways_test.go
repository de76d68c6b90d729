package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/mirror"
)

// planWith returns a copy of the example plan in which the first text of each pair is replaced by the second. A
// text that is missing is an error, because the plan has changed.
func planWith(t *testing.T, pairs ...string) string {
	t.Helper()
	text := exampleText(t)
	for i := 0; i+1 < len(pairs); i += 2 {
		if strings.Count(string(text), pairs[i]) != 1 {
			t.Fatalf("%s does not have exactly one %q", examplePlan, pairs[i])
		}
		text = []byte(strings.Replace(string(text), pairs[i], pairs[i+1], 1))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.join.hcl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestJoinHostGW: a node of the newest Kubernetes, in a cluster of it. flannel routes between nodes instead of
// encapsulating packets, and flanneld creates the network through the older interface of the HNS. The cluster has
// nothing for joining nodes except the plan's manifests. The logs are in a folder of the plan.
func TestJoinHostGW(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startClusterWith(ctx, t, controlplane.Options{APIServer: components.NewAPIServer}))
	b.network.OnAttach(b.addAddress)
	b.bareCluster(ctx)
	plan := planWith(t, append([]string{`"vxlan"`, `"host-gw"`, "\n  vni     = 4096", "\n  placeholder = true",
		"\n  port    = 4789", ""}, newest(t)...)...)
	args := b.variables(b.host.Port()).with(t, plan)

	b.wantRefused(ctx, args)
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs", first.took.Seconds())
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.wantNode(node)
	b.wantKubelet(ctx, components.NewKubernetes)
	for _, service := range []string{"containerd", "kubelet", "flanneld", "kube-proxy", "nodejoin-node"} {
		if _, err := os.Stat(b.host.Path(logFolder + `\` + service)); err != nil {
			t.Errorf("the log of %s: %v", service, err)
		}
		if _, err := os.Stat(b.host.Path(`C:\var\log\` + service)); err == nil {
			t.Errorf("%s has a folder below C:\\var\\log", service)
		}
	}
	if have := node.Annotations["flannel.alpha.coreos.com/backend-type"]; have != "host-gw" {
		t.Errorf("flanneld announced %q", have)
	}
	b.wantBridge(node.Spec.PodCIDR)
	if have := b.network.Network("External"); have == nil || have["Type"] != "L2Bridge" {
		t.Errorf("HNS network External: %v", have)
	}
	b.wantHealthy(ctx, "kubelet", 10248)
	b.wantHealthy(ctx, "kube-proxy", 10256)
	b.wantNoCredentialsLeft(ctx)
	b.wantManifests(ctx)
	wantNothing(ctx, t, args)
	b.wantServing(ctx, args)
	wantNothing(ctx, t, args)

	args[2] = planWith(t, append([]string{`"vxlan"`, "\"host-gw\"\n  delegate = \"sdnbridge\"", "\n  vni     = 4096", "",
		"\n  port    = 4789", ""}, append(newest(t), b.sdn()...)...)...)
	mustApply(ctx, t, args)
	b.wantHandedOver(ctx, "sdnbridge")
	wantNothing(ctx, t, args)
}

// logFolder is where newest has the logs of services.
const logFolder = `C:\logs of nodes`

// newest is manifestsPlan with the newest Kubernetes and with logFolder.
func newest(t *testing.T) []string {
	t.Helper()
	dir, artifacts, err := mirror.Make(t.Context(), componentSet(t), mirror.Others)
	if err != nil {
		t.Fatal(err)
	}
	a := artifacts[mirror.NewKubernetesNode]
	return append(manifestsPlan(t), fmt.Sprintf("%q", components.Kubernetes), fmt.Sprintf("%q", components.NewKubernetes),
		`artifact "kubernetes_node" { sha256 = try(var.sha256["kubernetes_node"], null) }`,
		fmt.Sprintf("artifact \"kubernetes_node\" {\n  file   = %q\n  sha256 = %q\n}", filepath.Join(dir, a.File), a.SHA256),
		`build  = "10.0.20348"`, fmt.Sprintf("build  = \"10.0.20348\"\n  services { log_dir = %q }", logFolder))
}

// addAddress adds an address to this machine for the duration of the test, as a new HNS adapter would. Programs
// under Wine see it.
func (b *bed) addAddress(address string) error {
	bits := "/32"
	if strings.Contains(address, ":") {
		bits = "/128"
	}
	ip := func(verb string) error {
		return exec.Command("ip", "address", verb, address+bits, "dev", "lo").Run()
	}
	b.t.Cleanup(func() {
		if err := ip("delete"); err != nil {
			b.t.Errorf("the address %s is still on this machine: %v", address, err)
		}
	})
	return ip("replace")
}

// wantBridge: the HNS has the L2Bridge network of the node's pods, with the endpoint of the host in it, and the
// CNI plugin and kube-proxy are configured for it.
func (b *bed) wantBridge(podCIDR string) {
	b.t.Helper()
	text, err := json.Marshal(b.network.Network("cbr0"))
	if err != nil {
		b.t.Fatal(err)
	}
	if !strings.Contains(string(text), `"Type":"L2Bridge"`) ||
		!strings.Contains(string(text), `"AddressPrefix":"`+podCIDR+`"`) {
		b.t.Errorf("HNS network cbr0: %s, want an L2Bridge with %s", text, podCIDR)
	}
	host := strings.TrimSuffix(podCIDR, "0/24") + "2"
	if b.network.Endpoint(host) == nil {
		b.t.Errorf("the HNS has no endpoint of the host, %s", host)
	}
	for path, want := range map[string]string{`C:\etc\cni\net.d\10-flannel.conflist`: `"win-bridge"`,
		`C:\etc\kube-flannel\net-conf.json`: `"host-gw"`,
		`C:\etc\kubernetes\kube-proxy.yaml`: "networkName: 'cbr0'", `C:\run\flannel\subnet.env`: "FLANNEL_SUBNET="} {
		if text := string(b.read(path)); !strings.Contains(text, want) {
			b.t.Errorf("%s has no %s:\n%s", path, want, text)
		}
	}
	if text := string(b.read(`C:\etc\kubernetes\kube-proxy.yaml`)); strings.Contains(text, "sourceVip") {
		b.t.Errorf("kube-proxy has a source VIP, which only overlays use:\n%s", text)
	}
}

// TestKubeadmJoin: kubeadm.exe joins the machine to a cluster that has what `kubeadm init` uploads. The kubelet
// runs with the files that kubeadm wrote and with the plan's settings beside them.
func TestKubeadmJoin(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	plan := planWith(t, `join "bootstrap_token" { ttl = "15m" }`, `join "kubeadm" {}`, `os     = "windows"`,
		"os     = \"windows\"\n  max_pods = 50")
	args := b.variables(b.host.Port()).with(t, plan)

	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs", first.took.Seconds())
	b.wantJoined(ctx)
	b.wantNoCredentialsLeft(ctx)
	b.wantByKubeadm(ctx)
	wantNothing(ctx, t, args)
}

// wantByKubeadm: kubeadm has run, and the kubelet has its settings and the plan's.
func (b *bed) wantByKubeadm(ctx context.Context) {
	b.t.Helper()
	for path, want := range map[string]string{`C:\var\log\kubelet\kubeadm.log`: "This node has joined the cluster",
		`C:\var\lib\kubelet\config.yaml`:                    "staticPodPath:",
		`C:\var\lib\kubelet\config.conf.d\50-nodejoin.conf`: "maxPods: 50",
		`C:\var\lib\kubelet\kubeadm-flags.env`:              "KUBELET_KUBEADM_ARGS="} {
		if text := string(b.read(path)); !strings.Contains(text, want) {
			b.t.Errorf("%s has no %q:\n%s", path, want, tail(text))
		}
	}
	b.wantPrivate(`C:\var\lib\kubelet\config.yaml`, `C:\var\lib\kubelet\config.conf.d`,
		`C:\var\lib\kubelet\kubeadm-flags.env`)
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if n := node.Status.Capacity.Pods().Value(); n != 50 {
		b.t.Errorf("the Node has room for %d pods, want 50", n)
	}
}

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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/mirror"
	"nodejoin/examples/acceptance/internal/wine"
)

// TestJoinKubeconfig: the kubelet uses a kubeconfig that the plan names: first the administrator's, with a
// warning, then the node's own. The network's CNI plugin is sdnoverlay. A leave restores the machine. Its Windows is
// Korean.
func TestJoinKubeconfig(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBedWith(ctx, t, startCluster(ctx, t), wine.Options{Korean: true})
	b.wantKorean(ctx)
	before := b.everything(ctx)
	given := filepath.Join(t.TempDir(), "given.conf")
	plan := planWith(t, append([]string{`join "bootstrap_token" { ttl = "15m" }`,
		fmt.Sprintf("join \"kubeconfig\" { path = %q }", given),
		`backend = "vxlan"`, "backend = \"vxlan\"\n  delegate = \"sdnoverlay\""}, b.sdn()...)...)
	args := b.variables(b.host.Port()).with(t, plan)
	warning := `administrator's credentials on nodes`

	b.give(given, b.cluster.Kubeconfig)
	b.network.HideVSID(true) // a network whose VNI is not seen is not another one
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs", first.took.Seconds())
	if !strings.Contains(unwrapped(first.stderr), warning) {
		t.Errorf("the output does not say %q:\n%s", warning, first.stderr)
	}
	b.wantJoined(ctx)
	b.wantHandedOver(ctx, "sdnoverlay")
	wantNothing(ctx, t, args)
	b.network.HideVSID(false)

	own, err := b.cluster.KubeconfigOf(nodeName, "system:node:"+nodeName, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	b.give(given, own)
	second := mustApply(ctx, t, args)
	if have := second.changed(); !slices.Contains(have, "kubelet_kubeconfig") || !slices.Contains(have, "kubelet") ||
		strings.Contains(unwrapped(second.stderr), warning) {
		t.Errorf("with the node's own kubeconfig: %v changed, want kubelet_kubeconfig and kubelet, and no warning:\n%s",
			have, second.stderr)
	}
	b.wantJoined(ctx)
	b.wantNoCredentialsLeft(ctx)
	b.wantPrivate(`C:\etc\kubernetes\kubelet.conf`)
	wantNothing(ctx, t, args)

	if left := released(t).run(ctx, t, "leave", append([]string{"--target", nodeName}, args...), nil); left.code != 0 {
		t.Fatalf("leave: %s", left)
	}
	if d := different(before, b.everything(ctx)); len(d) > 0 {
		t.Errorf("the machine is not what it was before the join:\n%s", strings.Join(d[:min(len(d), 60)], "\n"))
	}
	if _, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node after the leave: %v", err)
	}
}

// give copies the kubeconfig from to the path that the plan has for the nodes.
func (b *bed) give(to, from string) {
	b.t.Helper()
	text, err := os.ReadFile(from)
	if err := errors.Join(err, os.WriteFile(to, text, 0o600)); err != nil {
		b.t.Fatal(err)
	}
}

// sdn returns a pair for planWith that adds the archive of windows-container-networking to the example plan.
func (b *bed) sdn() []string {
	b.t.Helper()
	_, others, err := mirror.Make(b.t.Context(), componentSet(b.t), mirror.Others)
	if err != nil {
		b.t.Fatal(err)
	}
	block := fmt.Sprintf("artifact %q {\n  version = %q\n  sha256  = %q\n}\n", mirror.SDNCNI, components.SDNCNI,
		others[mirror.SDNCNI].SHA256)
	return []string{`artifact "flannel_cni"`, block + `artifact "flannel_cni"`}
}

// wantHandedOver: containerd has loaded the CNI configuration, because the Node is Ready. With that file and
// the one of flanneld, flannel's plugin passes to the delegate everything that nodejoin configures for it, and
// the node's pod subnet. The delegate is a stand-in that records its requests.
func (b *bed) wantHandedOver(ctx context.Context, delegate string) {
	b.t.Helper()
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.wantNode(node)
	var list struct {
		Name, CNIVersion string
		Plugins          []map[string]any
	}
	if err := json.Unmarshal(b.read(`C:\etc\cni\net.d\10-flannel.conflist`), &list); err != nil ||
		len(list.Plugins) != 1 {
		b.t.Fatalf("CNI configuration: %d plugins, %v", len(list.Plugins), err)
	}
	conf := list.Plugins[0] // as a runtime gives it to the plugin (CNI specification, "Deriving execution configuration")
	conf["name"], conf["cniVersion"] = list.Name, list.CNIVersion
	text, err := json.Marshal(conf)
	if err != nil {
		b.t.Fatal(err)
	}
	const plugins = `C:\opt\cni\bin`
	ask := func(command string) (asked map[string]any) {
		b.t.Helper()
		out, err := b.host.RunWith(ctx, []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=handed-over",
			"CNI_NETNS=6e1a6b5e-3b8f-4a47-9a63-5f1d2e6c7b80", "CNI_IFNAME=eth0", "CNI_PATH=" + plugins},
			string(text), plugins+`\flannel.exe`)
		if err != nil {
			b.t.Fatalf("%s by flannel's plugin: %v\n%s", command, err, out)
		}
		note := plugins + `\` + delegate + ".exe." + command + ".json"
		if err := errors.Join(json.Unmarshal(b.read(note), &asked), os.Remove(b.host.Path(note))); err != nil {
			b.t.Fatal(err)
		}
		return asked
	}
	asked := ask("ADD")
	for key, want := range conf["delegate"].(map[string]any) {
		if have, _ := json.Marshal(asked[key]); string(have) != marshalled(b.t, want) {
			b.t.Errorf("%s gets %s: %s, want %s", delegate, key, have, marshalled(b.t, want))
		}
	}
	ipam, _ := asked["ipam"].(map[string]any)
	if asked["name"] != list.Name || ipam["type"] != "host-local" || ipam["subnet"] != node.Spec.PodCIDR {
		b.t.Errorf("%s gets the network %v with addresses of %v, want %s with host-local and %s", delegate, asked["name"],
			ipam, list.Name, node.Spec.PodCIDR)
	}
	ask("DEL")
}

func marshalled(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantKorean: code page and names are those of a Korean Windows.
func (b *bed) wantKorean(ctx context.Context) {
	b.t.Helper()
	for _, q := range [][3]string{
		{`HKLM\System\CurrentControlSet\Control\Nls\CodePage`, "ACP", "949"},
		{`HKCU\Control Panel\International`, "LocaleName", "ko-KR"},
	} {
		if out, err := b.host.Run(ctx, "reg.exe", "query", q[0], "/v", q[1]); err != nil || !strings.Contains(out, q[2]) {
			b.t.Fatalf("%s is not %s: %v\n%s", q[1], q[2], err, out)
		}
	}
}

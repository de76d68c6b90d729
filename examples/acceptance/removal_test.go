package acceptance_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
)

// withNSSM is the part of sidePrograms by which nssm runs the services.
var withNSSM = []string{
	`artifact "flanneld" { sha256 = try(var.sha256["flanneld"], null) }`,
	`artifact "flanneld" { sha256 = var.sha256["flanneld"] }
artifact "nssm" {
  version = "` + components.NSSM + `.0"
  sha256  = var.sha256["nssm"]
}`,
	`os     = "windows"`, `os     = "windows"
  services {
    manager       = "nssm"
    restart_delay = "1s"
  }`,
}

// hostGW replaces flannel's backend vxlan in the example plan.
var hostGW = []string{`"vxlan"`, `"host-gw"`, "\n  vni     = 4096", "", "\n  port    = 4789", ""}

// wantRemovals removes the addons, nssm and flannel's backend vxlan from a plan with sidePrograms, one after
// another. After each removal the Node is Ready, a second apply changes nothing, and nothing that the plan dropped
// is left on the machine.
func (b *bed) wantRemovals(ctx context.Context, t *testing.T, v variables, before map[string]string) {
	b.network.OnAttach(b.addAddress)
	for _, c := range []struct {
		name   string
		plan   []string // pairs for planWith
		gone   []string // words of what must not be on the machine any more
		joined func(t *testing.T)
	}{
		{"addons", withNSSM,
			[]string{"csi-proxy", "csi_proxy", "windows_exporter", "windows-exporter", "crictl", `file metrics`},
			func(t *testing.T) {
				b.wantJoined(ctx)
				if answers(ctx, "http://127.0.0.1:9182/metrics") {
					t.Error("the port of windows_exporter is still open")
				}
			}},
		{"nssm to native", nil, []string{"nssm", `\services\containerd\parameters`, `\services\kubelet\parameters`,
			`\services\flanneld\parameters`, `\services\kube-proxy\parameters`},
			func(*testing.T) { b.wantJoined(ctx) }},
		{"vxlan to host-gw", hostGW, []string{network, "nodejoin-vxlan"}, func(t *testing.T) { b.wantGateway(ctx, t) }},
	} {
		t.Run("without "+c.name, func(t *testing.T) {
			had := len(b.left(ctx, before, c.gone))
			if had == 0 {
				t.Fatalf("the machine has nothing of %q before the removal", c.gone)
			}
			args := v.with(t, planWith(t, c.plan...))
			r := mustApply(ctx, t, args)
			t.Logf("removed %d items in %.1fs", had, r.took.Seconds())
			c.joined(t)
			if left := b.left(ctx, before, c.gone); len(left) > 0 {
				t.Errorf("still on the machine:\n%s", strings.Join(left[:min(len(left), 40)], "\n"))
			}
			wantNothing(ctx, t, args)
		})
	}
}

// left returns what is new on the machine since before and has one of the words in its name or, in the registry,
// in its value.
func (b *bed) left(ctx context.Context, before map[string]string, words []string) (out []string) {
	b.t.Helper()
	for _, line := range different(before, b.everything(ctx)) {
		name, is, _ := strings.Cut(line, ": ")
		is, _, _ = strings.Cut(is, ", was ")
		text := strings.ToLower(name)
		if strings.HasPrefix(name, "registry ") {
			text += " " + strings.ToLower(is)
		}
		if is != `""` && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
			out = append(out, line)
		}
	}
	return out
}

// wantGateway: the Node is Ready with flannel's backend host-gw, and the HNS has no overlay.
func (b *bed) wantGateway(ctx context.Context, t *testing.T) {
	t.Helper()
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.wantNode(node)
	if have := node.Annotations["flannel.alpha.coreos.com/backend-type"]; have != "host-gw" {
		t.Errorf("flanneld announced %q", have)
	}
	if have := b.network.Network(network); have != nil {
		t.Errorf("HNS still has the network %v", have)
	}
	b.wantBridge(node.Spec.PodCIDR)
	b.wantHealthy(ctx, "kubelet", 10248)
	b.wantHealthy(ctx, "kube-proxy", 10256)
}

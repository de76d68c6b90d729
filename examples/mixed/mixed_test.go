// Package mixed_test runs the plan of a mixed cluster as the command does.
package mixed_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/internal/exampletest"
)

// TestJoinsBoth: one apply joins both, and a second one finds nothing to do.
func TestJoinsBoth(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exampletest.Compile(t, exampletest.Workspace(t), nil)
	exampletest.Run(t, ctx, c)
	for name, want := range map[string]struct {
		os     string
		taints int
	}{"win-1": {"windows", 1}, "lin-1": {"linux", 0}} {
		n, err := exampletest.Cluster(t, c).Node(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !n.Ready || n.Labels["kubernetes.io/os"] != want.os || len(n.Taints) != want.taints {
			t.Errorf("Node %+v", n)
		}
		if tokens, err := exampletest.Cluster(t, c).BootstrapTokens(ctx, name); err != nil || len(tokens) > 0 {
			t.Errorf("%d bootstrap tokens of %s are left, %v", len(tokens), name, err)
		}
	}
	if changed, mutations := exampletest.Run(t, ctx, c); len(changed) > 0 || mutations > 0 {
		t.Errorf("the second apply changed %v with %d mutating calls", changed, mutations)
	}
	// The recipe decides these by facts of the machine.
	box := c.Nodes[0].Connection.Sandbox.Path
	for file, want := range map[string]string{"etc/containerd/config.toml": "SystemdCgroup = true\n",
		"var/lib/kubelet/config.yaml":                                      "cgroupDriver: 'systemd'\n",
		"etc/kubernetes/kube-proxy.yaml":                                   "mode: nftables\n",
		"etc/sysctl.d/90-nodejoin-net.bridge.bridge-nf-call-iptables.conf": "= 1\n"} {
		text, err := os.ReadFile(filepath.Join(box, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s of %s: no %q in it, %v:\n%s", file, c.Nodes[0].Name, want, err, text)
		}
	}
}

// TestAfterReboot: a Linux machine comes back without its modules and parameters, and
// the next run restores only those.
func TestAfterReboot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exampletest.Compile(t, exampletest.Workspace(t), nil)
	exampletest.Run(t, ctx, c)
	lin := c.Nodes[0]
	h, err := exampletest.Host(lin)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	changed, _ := exampletest.Run(t, ctx, c)
	if len(changed) == 0 {
		t.Error("nothing changed after a reboot")
	}
	for _, step := range changed {
		id := strings.TrimPrefix(step, lin.Name+"/")
		if !strings.HasPrefix(id, "module_") && !strings.HasPrefix(id, "sysctl_") && id != "max_map_count" {
			t.Errorf("%s changed after a reboot", step)
		}
	}
	if again := exampletest.Check(t, ctx, exampletest.Session(t, c)); len(again) > 0 {
		t.Errorf("the next check still finds %v", again)
	}
}

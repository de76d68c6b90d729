package acceptance_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// TestLinuxNodeWithoutProxy: a cluster that brings kube-proxy itself. The node is joined
// without one, with flannel as before, and runs a pod.
func TestLinuxNodeWithoutProxy(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	before := b.snapshot()
	args := writePlan(t, b.head(),
		strings.Replace(b.linuxHost(), "kube_proxy { config = { conntrack = { maxPerCore = 0, min = 0 } } }",
			"kube_proxy { enabled = false }", 1))
	mustApply(ctx, t, args)
	for _, path := range []string{"/usr/local/bin/kube-proxy", "/etc/kubernetes/kube-proxy.conf",
		"/etc/kubernetes/kube-proxy.yaml"} {
		if _, err := os.Stat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s exists: %v", path, err)
		}
	}
	if rules, err := b.machine.Run(ctx, "iptables-save"); err != nil || strings.Contains(rules, "KUBE-SERVICES") {
		t.Errorf("the packet filter has rules of a kube-proxy: %v\n%s", err, rules)
	}
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	b.wantLeft(ctx, args, before)
}

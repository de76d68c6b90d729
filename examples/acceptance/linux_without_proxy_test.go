package acceptance_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// linuxHostWithoutProxy is linuxHost for a cluster that brings kube-proxy itself.
func (b *linuxBed) linuxHostWithoutProxy() string {
	b.t.Helper()
	const own = "kube_proxy { config = { conntrack = { maxPerCore = 0, min = 0 } } }"
	plan := b.linuxHost()
	if strings.Count(plan, own) != 1 {
		b.t.Fatalf("the plan does not have exactly one %q:\n%s", own, plan)
	}
	return strings.Replace(plan, own, "kube_proxy { enabled = false }", 1)
}

// wantNoProxy: nothing of a kube-proxy of nodejoin's is on the machine, and no kube-proxy has made rules.
func (b *linuxBed) wantNoProxy(ctx context.Context) {
	b.t.Helper()
	for _, path := range []string{"/usr/local/bin/kube-proxy", "/etc/kubernetes/kube-proxy.conf",
		"/etc/kubernetes/kube-proxy.yaml", "/etc/systemd/system/kube-proxy.service"} {
		if _, err := os.Stat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			b.t.Errorf("%s exists: %v", path, err)
		}
	}
	if rules, err := b.machine.Run(ctx, "iptables-save"); err != nil || strings.Contains(rules, "KUBE-SERVICES") {
		b.t.Errorf("the packet filter has rules of a kube-proxy: %v\n%s", err, rules)
	}
}

// TestLinuxNodeWithoutProxy: a cluster that brings kube-proxy itself. The node is joined
// without one, with flannel as before, and runs a pod.
func TestLinuxNodeWithoutProxy(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	before := b.snapshot()
	args := writePlan(t, b.head(), b.linuxHostWithoutProxy())
	mustApply(ctx, t, args)
	b.wantNoProxy(ctx)
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	b.wantLeft(ctx, args, before)
}

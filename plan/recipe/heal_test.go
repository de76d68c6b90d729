package recipe_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"nodejoin/steps/heal"
	"nodejoin/steps/host"
)

// TestHealsAfterBoot: the service that a join leaves repairs the node after a boot that broke its start order,
// and the next run finds nothing to do.
func TestHealsAfterBoot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	n.converge(t, ctx)
	h := n.machine(t)
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	// As Windows leaves them: the network is gone after the boot, and kube-proxy and flanneld have exited
	// without it.
	for _, name := range []string{"kube-proxy", "flanneld"} {
		if err := h.StopService(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.DeleteHNSNetwork(ctx, "flannel.4096"); err != nil {
		t.Fatal(err)
	}
	r, err := n.run(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	if broken := strings.Join(r.changes(), " "); !strings.Contains(broken, "flannel_network") ||
		!strings.Contains(broken, "kube_proxy") {
		t.Fatalf("the boot has broken %s", broken)
	}
	var reports []string
	opt := heal.Options{Host: h, Path: `C:\ProgramData\nodejoin\boot.json`, LockDir: h.LockDir(), Log: func(line string) {
		t.Log(line)
	},
		Report: func(_ heal.Level, text string) { reports = append(reports, text) }}
	if err := heal.Run(ctx, opt); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || !strings.Contains(reports[0], "Done: flannel_network, flanneld, kube_proxy.") {
		t.Errorf("reported %q", reports)
	}
	if svc, err := h.Service(ctx, "nodejoin-boot"); err != nil || svc.State != host.ServiceRunning {
		t.Errorf("nodejoin-boot is %q, %v", svc.State, err)
	}
	if r, err = n.run(ctx, h); err != nil {
		t.Fatal(err)
	}
	if again := r.changes(); len(again) > 0 {
		t.Errorf("the next check still finds %v", again)
	}
}

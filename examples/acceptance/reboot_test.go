package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	bootLog = `C:\var\log\nodejoin-node\node.log`
	// healWait bounds the time from a boot to the end of the healing. It takes about
	// half a minute on two cores.
	healWait = 5 * time.Minute
)

// TestReboot: all processes of a machine are killed at once, and its HNS loses what does not survive a boot,
// but keeps flannel's network. The machine becomes a node again by itself, and status finds it in sync. It does so
// again when HNS restarts and loses everything. While all is in order, the service costs hardly anything.
func TestReboot(t *testing.T) {
	ctx, cancel := bounded(t, 15*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	args := b.variables(b.host.Port()).write(t)
	b.addCloudRoutes()
	mustApply(ctx, t, args)
	vip := b.wantJoined(ctx)
	b.wantCloudRoutes("after the join")
	before := len(b.bootLog())

	if err := b.host.Stop(); err != nil {
		t.Fatal(err)
	}
	b.network.Reboot()
	if b.network.Network(network) == nil {
		t.Error("the HNS network is gone after the reboot")
	}
	booted := time.Now()
	if err := b.host.Boot(ctx); err != nil {
		t.Fatal(err)
	}
	b.awaitHealed(ctx, before)
	b.awaitAlive(ctx, booted)
	t.Logf("everything in order %.1fs after the boot:\n%s", time.Since(booted).Seconds(), b.bootLog()[before:])

	b.wantCloudRoutes("after the boot")
	if again := b.wantJoined(ctx); !again.Equal(vip) {
		t.Errorf("the source VIP is %[2]v, was %[1]v before the reboot", vip, again)
	}
	if out, code := released(t).status(ctx, t, args); code != 0 || !strings.Contains(out, "in sync") {
		t.Errorf("status has exit code %d:\n%s", code, out)
	}
	wantNothing(ctx, t, args)
	t.Run("idle", func(t *testing.T) { b.wantIdleGuard(ctx, t) })
	t.Run("hns", func(t *testing.T) { b.wantNetworkBack(ctx, t, args) })
}

func (b *bed) bootLog() string {
	b.t.Helper()
	text, err := os.ReadFile(b.host.Path(bootLog))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

// awaitHealed waits until the log says, after its first bytes, that everything is in order.
func (b *bed) awaitHealed(ctx context.Context, behind int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, healWait, fmt.Errorf("not done within %v", healWait))
	defer cancel()
	for !strings.Contains(b.bootLog()[behind:], "everything is in order") {
		b.wait(ctx, "the boot log does not say that everything is in order: "+tail(b.bootLog()[behind:]))
	}
}

// awaitAlive waits until the kubelet has renewed its Lease after since and the Node is Ready.
func (b *bed) awaitAlive(ctx context.Context, since time.Time) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, healWait, fmt.Errorf("not done within %v", healWait))
	defer cancel()
	for {
		lease, err := b.cluster.Client.CoordinationV1().Leases("kube-node-lease").Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ready && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(since) {
			return
		}
		b.wait(ctx, "the Node is not Ready again")
	}
}

// wait is the pause between two checks. If ctx ends, the test fails with what was seen last.
func (b *bed) wait(ctx context.Context, seen string) {
	b.t.Helper()
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
		b.t.Fatalf("%v: %s", context.Cause(ctx), seen)
	}
}

// status runs `nodejoin status --detailed-exitcode` from the root of the repository.
func (p program) status(ctx context.Context, t *testing.T, args []string) (out string, code int) {
	t.Helper()
	out, said, code := p.outputs(ctx, t, append([]string{"status", "--detailed-exitcode"}, args...)...)
	return out + said, code
}

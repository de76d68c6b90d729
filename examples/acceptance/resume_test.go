package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"nodejoin/examples/acceptance/internal/netproxy"
)

// killedAfter are, for each machine, numbers of mutating calls, spread over the join, after which the agents of its
// runs die. A join makes more than 80 of them, and each run goes on where the one before has ended. All runs of a
// machine but the last kill nodejoin, too.
var killedAfter = [][]int{{1}, {2, 24, 40}, {8, 36, 34}, {18, 44, 16}}

// TestKilledAnywhere: whichever mutating calls were the last ones of runs, the next run finishes the join and the
// one after that has nothing to do.
func TestKilledAnywhere(t *testing.T) {
	ctx, cancel := bounded(t, 25*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
	nodejoin := program(nodejoinWith(t, "linux", "crashtest"))
	for _, calls := range killedAfter {
		t.Run(strings.Trim(fmt.Sprint(calls), "[]"), func(t *testing.T) {
			forgetNode(ctx, t, cluster.Client.CoreV1().Nodes())
			b := newBed(ctx, t, cluster)
			args := b.variables(b.host.Port()).write(t)
			for i, n := range calls {
				b.killedAt(ctx, t, nodejoin, args, n, i < len(calls)-1)
			}
			nodejoin.mustApply(ctx, t, args)
			b.wantJoined(ctx)
			b.wantNoCredentialsLeft(ctx)
			nodejoin.wantNothing(ctx, t, args)
		})
	}
}

// killedAt runs an apply whose agent dies after its nth mutating call, and nodejoin with it, if both is set.
func (b *bed) killedAt(ctx context.Context, t *testing.T, nodejoin program, args []string, n int, both bool) {
	t.Helper()
	b.crashAfter(n)
	lost := false
	r := nodejoin.apply(ctx, t, args, func(e streamEvent, controller *os.Process) {
		if e.Type == "host_state" && e.State == "reconnecting" {
			lost = true
			if both {
				controller.Kill()
			}
		}
	})
	calls := b.wantCrashed()
	t.Logf("the agent ended after %q, its call %d; exit code %d after %.1fs", calls[len(calls)-1], n, r.code,
		r.took.Seconds())
	switch {
	case both && (!lost || r.code != -1):
		t.Fatalf("nodejoin was not killed: %s", r)
	case !both && r.code != 0 && r.code != 4: // it may reconnect and go on
		t.Errorf("after its agent crashed, nodejoin has exit code %d, want 0 or 4: %s", r.code, r)
	}
}

// dataDir is nodejoin's folder on the machine.
const dataDir = `C:\ProgramData\nodejoin`

// crashAfter orders the next agent to die after its nth mutating call.
func (b *bed) crashAfter(n int) {
	b.t.Helper()
	if err := os.MkdirAll(b.host.Path(dataDir), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.host.Path(dataDir+`\crash-after`), []byte(strconv.Itoa(n)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// crashed reports whether an agent has crashed as ordered.
func (b *bed) crashed() bool {
	_, err := os.Stat(b.host.Path(dataDir + `\crash-after`))
	return errors.Is(err, fs.ErrNotExist)
}

// wantCrashed checks that an agent crashed as ordered, and returns its calls.
func (b *bed) wantCrashed() []string {
	b.t.Helper()
	if !b.crashed() {
		b.t.Fatal("the agent did not crash at the requested call")
	}
	return strings.Split(string(b.read(dataDir+`\crashed`)), "\n")
}

// TestControllerKilled: if nodejoin is killed while its agent lives, the next run finishes the machine.
func TestControllerKilled(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
	for _, step := range []string{"kubernetes_node", "kubelet", "kube_proxy_ready"} {
		t.Run(step, func(t *testing.T) {
			forgetNode(ctx, t, cluster.Client.CoreV1().Nodes())
			b := newBed(ctx, t, cluster)
			args := b.variables(b.host.Port()).write(t)
			r := apply(ctx, t, args, func(e streamEvent, controller *os.Process) {
				if e.Type == "step_started" && e.Step == step {
					controller.Kill()
				}
			})
			if r.code != -1 {
				t.Fatalf("nodejoin was not killed: %s", r)
			}
			mustApply(ctx, t, args)
			b.wantJoined(ctx)
			b.wantNoCredentialsLeft(ctx)
			wantNothing(ctx, t, args)
		})
	}
}

// TestConnectionCut: the connection is cut during an artifact, the creation of the adapter's switch, or the
// start of a service. Either nodejoin reconnects and continues, or it fails with exit code 4 and the next run
// finishes.
func TestConnectionCut(t *testing.T) {
	ctx, cancel := bounded(t, 15*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
	plan := planWith(t, "\n  port    = 4789", "\n  placeholder = true")
	for _, c := range []struct {
		name string
		cut  func(e streamEvent, p *netproxy.Proxy) bool // true once it has cut
	}{
		{"artifact", func(e streamEvent, p *netproxy.Proxy) bool {
			if e.Type == "step_progress" && e.Step == "kubernetes_node" && e.Done > 8<<20 {
				p.Cut()
				return true
			}
			return false
		}},
		{"switch", func(e streamEvent, p *netproxy.Proxy) bool {
			if e.Type == "step_started" && e.Step == "placeholder" {
				p.Cut()
				return true
			}
			return false
		}},
		{"service", func(e streamEvent, p *netproxy.Proxy) bool {
			if e.Type == "step_started" && e.Step == "kubelet" {
				p.Cut()
				return true
			}
			return false
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			forgetNode(ctx, t, cluster.Client.CoreV1().Nodes())
			b := newBed(ctx, t, cluster)
			proxy, err := netproxy.Start(b.host.Addr, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			args := b.variables(proxy.Port()).with(t, plan)
			cut := false
			r := apply(ctx, t, args, func(e streamEvent, _ *os.Process) {
				if !cut {
					cut = c.cut(e, proxy)
				}
			})
			switch {
			case !cut:
				t.Fatalf("no connection was cut: %s", r)
			case r.code == 4:
				mustApply(ctx, t, args)
			case r.code != 0:
				t.Fatalf("want exit code 0 or 4: %s", r)
			case proxy.Accepted() < 2:
				t.Errorf("the run used %d connection, want more than one", proxy.Accepted())
			}
			b.wantJoined(ctx)
			wantNothing(ctx, t, args)
		})
	}
}

type nodeDeleter interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// forgetNode removes the Node of the previous machine.
func forgetNode(ctx context.Context, t *testing.T, nodes nodeDeleter) {
	t.Helper()
	if err := nodes.Delete(ctx, nodeName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

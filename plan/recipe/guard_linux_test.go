package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	nodeservice "nodejoin/steps/node"
)

// guarded is a joined Linux machine with its guard at work.
type guarded struct {
	t      *testing.T
	n      *node
	h      *sandbox.Host
	starts map[string]int // of services, by the guard
}

// guardLinux joins a Linux machine in a sandbox, and runs during while its guard is at work. At the end everything is
// in order.
func guardLinux(t *testing.T, during func(g *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(in *recipe.Input, _ string) {
			in.Node, in.OS = "lin-1", "linux"
			in.Artifacts = mirrored(t, map[string]string{
				"kubernetes_node": "kubernetes-node-linux-amd64.tar.gz", "containerd": "containerd-2.2.1-linux-amd64.tar.gz",
				"cni_plugins": "cni-plugins-linux-amd64-v1.9.1.tgz", "flannel_cni": "flannel-amd64",
				"flanneld": "flanneld-amd64", "runc": "runc.amd64", "agent": "runc.amd64"})
		})
		n.converge(t, t.Context())
		g := &guarded{t: t, n: n, h: n.machine(t), starts: map[string]int{}}
		watched := host.Intercept(g.h, func(op, subject string) error {
			if op == "start service" {
				g.starts[subject]++
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- nodeservice.Run(ctx, nodeservice.Options{Host: watched, Path: "/var/lib/nodejoin/node.json",
				LockDir: g.h.LockDir(), Log: func(string) {}, Report: func(nodeservice.Level, string) {}})
		}()
		time.Sleep(90 * time.Second) // of the fake clock: two rounds
		if len(g.starts) > 0 {
			t.Errorf("a healthy node: started %v", g.starts)
		}
		during(g)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		g.inOrder("at the end")
	})
}

func (g *guarded) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// inOrder checks that a plan finds nothing to do.
func (g *guarded) inOrder(when string) {
	g.t.Helper()
	r, err := g.n.run(g.t.Context(), g.n.machine(g.t))
	g.must(err)
	if wrong := r.changes(); len(wrong) > 0 {
		g.t.Errorf("%s: not in order: %v, started %v, %v", when, wrong, g.starts, g.problems())
	}
}

// problems are those that the guard reports.
func (g *guarded) problems() []steps.GuardProblem {
	g.t.Helper()
	facts, err := g.h.Facts(g.t.Context())
	g.must(err)
	s, err := executor.GuardState(g.t.Context(), g.h, facts)
	g.must(err)
	if s == nil {
		g.t.Fatal("the guard has no state")
	}
	return s.Problems
}

// fault is what happens to a Linux node between two applies.
type fault struct {
	stops []string // services that end, or that have to be restarted
	make  func(ctx context.Context, h *sandbox.Host) error
}

var linuxFaults = []fault{
	ends("kubelet"), ends("kubelet", "containerd"), ends("flanneld"), ends("kube-proxy"),
	changes("/var/lib/kubelet/config.yaml"),
	changes("/etc/containerd/config.toml"),
	changes("/etc/kube-flannel/net-conf.json"),
	changes("/etc/kubernetes/kube-proxy.yaml"),
	loses("/etc/cni/net.d/10-flannel.conflist"),
	loses("/run/flannel/subnet.env", "flanneld"),
	loses("/etc/modules-load.d/nodejoin-br_netfilter.conf"),
	{make: func(ctx context.Context, h *sandbox.Host) error { return h.SetSysctl(ctx, "net.ipv4.ip_forward", "0") }},
}

func ends(services ...string) fault {
	return fault{services, func(ctx context.Context, h *sandbox.Host) (err error) {
		for _, name := range services {
			err = errors.Join(err, h.StopService(ctx, name))
		}
		return err
	}}
}

func loses(path string, restarts ...string) fault {
	return fault{restarts, func(ctx context.Context, h *sandbox.Host) error { return h.Remove(ctx, path) }}
}

func changes(path string) fault {
	return fault{nil, func(ctx context.Context, h *sandbox.Host) error {
		return h.WriteFile(ctx, path, strings.NewReader("# somebody was here\n"), host.WriteOptions{})
	}}
}

// TestGuardOfLinux: whatever ends, changes or goes missing on a Linux node is as the plan wants it within 75 seconds,
// or reported while the next try has to wait. No service starts that did not have to: 200 faults.
func TestGuardOfLinux(t *testing.T) {
	faults := 200
	if testing.Short() {
		faults = 2 * len(linuxFaults)
	}
	guardLinux(t, func(g *guarded) {
		random := rand.New(rand.NewPCG(3, 4))
		made := map[string]int{}
		for i := range faults {
			f := linuxFaults[i%len(linuxFaults)]
			if i >= len(linuxFaults) { // each once, then any
				f = linuxFaults[random.IntN(len(linuxFaults))]
			}
			for _, name := range f.stops {
				made[name]++
			}
			g.must(f.make(g.t.Context(), g.h))
			time.Sleep(75*time.Second + time.Duration(random.Int64N(int64(2*time.Minute))))
			if i < len(linuxFaults) || i%10 == 0 && len(g.problems()) == 0 { // it may wait before its next try
				g.inOrder(fmt.Sprint("after fault ", i))
			}
		}
		time.Sleep(time.Hour)
		for service, n := range g.starts {
			if n > made[service] {
				t.Errorf("%s started %d times, of %v", service, n, made)
			}
		}
		t.Logf("made %v, started %v", made, g.starts)
	})
}

// TestPauseOfLinux: what an operator stops on a paused node stays stopped, and is reported. The guard goes on when the
// pause ends.
func TestPauseOfLinux(t *testing.T) {
	guardLinux(t, func(g *guarded) {
		x := executor.NewExecutor(nil, g.h, nil, nil)
		pause := &steps.GuardPause{By: "alice", Since: time.Now(), Until: time.Now().Add(10 * time.Minute)}
		_, err := x.Pause(g.t.Context(), executor.PauseRequest{Pause: pause})
		g.must(err)
		for _, f := range linuxFaults[:5] {
			g.must(f.make(g.t.Context(), g.h))
		}
		time.Sleep(9 * time.Minute)
		if found := g.problems(); len(g.starts) > 0 || len(found) < 5 {
			t.Errorf("on a paused node: started %v, reported %v", g.starts, found)
		}
		time.Sleep(150 * time.Second)
		g.inOrder("after the pause")
	})
}

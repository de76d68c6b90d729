package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"nodejoin/examples/acceptance/internal/netproxy"
)

// interruptions are the points at which a run is killed: when a step starts, or some
// time later, in the middle of it. Every other one kills the agent on the machine,
// the rest nodejoin itself.
var interruptions = []struct {
	step  string
	after time.Duration
	agent bool
}{
	{step: "bin_dir"},
	{step: "agent", after: 50 * time.Millisecond},
	{step: "containerd_files", after: 300 * time.Millisecond, agent: true},
	{step: "kubernetes_node", after: 500 * time.Millisecond},
	{step: "containerd", after: 100 * time.Millisecond},
	{step: "kubelet", after: 100 * time.Millisecond, agent: true},
	{step: "flanneld", after: 200 * time.Millisecond},
	{step: "flannel_network", agent: true},
	{step: "kube_proxy", after: 100 * time.Millisecond},
	{step: "kube_proxy_ready", after: 500 * time.Millisecond, agent: true},
}

// TestKilledAnywhere: whatever a run is killed in, the next one finishes the join and
// the one after that has nothing to do.
func TestKilledAnywhere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
	for _, in := range interruptions {
		what := "controller"
		if in.agent {
			what = "agent"
		}
		t.Run(fmt.Sprintf("%s+%v %s", in.step, in.after, what), func(t *testing.T) {
			forgetNode(ctx, t, cluster.Client.CoreV1().Nodes())
			b := newBed(ctx, t, cluster)
			args := b.variables(b.host.Port()).write(t)
			struck := false
			r := apply(ctx, t, args, func(e streamEvent, controller *os.Process) {
				if struck || e.Type != "step_started" || e.Step != in.step {
					return
				}
				struck = true
				time.Sleep(in.after) // the point of the strike, nothing is awaited
				if !in.agent {
					controller.Kill()
					return
				}
				if n := b.killAgent(); n == 0 {
					t.Error("no agent was running")
				}
			})
			if !struck {
				t.Fatalf("step %s never started: %s", in.step, r)
			}
			// A killed agent may be connected to anew, and the run go on.
			if !in.agent && r.code != -1 {
				t.Fatalf("nodejoin was not killed: %s", r)
			}
			if in.agent && r.code != 0 && r.code != 4 {
				t.Errorf("with its agent killed, nodejoin ends with code %d, want 0 or 4: %s", r.code, r)
			}
			mustApply(ctx, t, args)
			b.wantJoined(ctx)
			b.wantNoCredentialsLeft(ctx)
			wantNothing(ctx, t, args)
		})
	}
}

// TestConnectionCut: a connection that is cut in the middle of an artifact, or of the
// start of a service, is made anew and the run goes on; or it fails with exit code 4
// and the next one finishes.
func TestConnectionCut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
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
			args := b.variables(proxy.Port()).write(t)
			cut := false
			r := apply(ctx, t, args, func(e streamEvent, _ *os.Process) {
				if !cut {
					cut = c.cut(e, proxy)
				}
			})
			switch {
			case !cut:
				t.Fatalf("nothing was cut: %s", r)
			case r.code == 4:
				mustApply(ctx, t, args)
			case r.code != 0:
				t.Fatalf("want exit code 0 or 4: %s", r)
			case proxy.Accepted() < 2:
				t.Errorf("the run went on over %d connection; was it cut?", proxy.Accepted())
			}
			b.wantJoined(ctx)
			wantNothing(ctx, t, args)
		})
	}
}

type nodeDeleter interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// forgetNode removes the Node of the machine before.
func forgetNode(ctx context.Context, t *testing.T, nodes nodeDeleter) {
	t.Helper()
	if err := nodes.Delete(ctx, nodeName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// killAgent kills the agent that serves the SSH connection, and tells how many there
// were. The supervisor of flanneld is the same program and stays.
func (b *bed) killAgent() int {
	b.t.Helper()
	prefix := "WINEPREFIX=" + b.host.Prefix
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	killed := 0
	for _, p := range processes {
		command, err := os.ReadFile(filepath.Join(p, "cmdline"))
		// Gone meanwhile, or another user's.
		if err != nil || !strings.Contains(string(command), "nodejoin-agent") || strings.Contains(string(command), "supervise") || strings.Contains(string(command), "cmd.exe") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(p, "environ"))
		if err != nil || !strings.Contains(string(env), prefix) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	return killed
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// TestKilledAfterEveryCall: a run that is killed after any of its mutating calls is completed by the next run, and the
// run after that finds no changes.
func TestKilledAfterEveryCall(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	total := w.calls.Load()
	if total < 50 {
		t.Fatalf("a join made only %d mutating calls", total)
	}
	w.mustBeQuiet()
	step := int64(4) // TestWholeLife covers every call
	if testing.Short() {
		step = 14
	}
	for n := int64(0); n < total; n += step {
		t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.one = true
			if _, sum := w.apply(n); sum.Hosts[0].Err == nil {
				t.Fatalf("killed after %d calls, yet the host did not fail", n)
			}
			w.mustConverge()
			w.mustBeQuiet()
		})
	}
}

// TestDroppedConnections: a run whose connection is lost several times reconnects and continues by itself.
func TestDroppedConnections(t *testing.T) {
	smooth := newWorld(t).mustConverge()
	w := newWorld(t)
	w.drops.Store(3)
	w.checkDrops.Store(2)
	sum := w.mustConverge()
	if w.drops.Load() != 0 {
		t.Error("not every loss happened")
	}
	for i, h := range sum.Hosts {
		if want := smooth.Hosts[i]; len(h.Changed) != len(want.Changed) || len(h.Unchanged) != len(want.Unchanged) {
			t.Errorf("%s: %d changed and %d not, without losses %d and %d", h.Node, len(h.Changed), len(h.Unchanged),
				len(want.Changed), len(want.Unchanged))
		}
	}
	seen := 0
	for _, e := range w.events {
		if s, ok := e.(event.HostState); ok && s.State == "reconnecting" {
			seen++
		}
	}
	if seen != 5 {
		t.Errorf("%d reconnections, want 5", seen)
	}
	w.mustBeQuiet()
}

// TestExpiredToken: a bootstrap token expires before the kubelet uses it. The error of the step says so and names the
// step's place in the plan; the next apply mints a new token.
func TestExpiredToken(t *testing.T) {
	w := newWorld(t)
	w.one = true
	cluster := w.known().Cluster
	w.before = func(req executor.Request) {
		if !slices.ContainsFunc(req.Steps, func(s steps.Spec) bool { return s.ID == "kubelet" }) {
			return
		}
		// The token expires, and the cluster's controller removes it.
		api, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: cluster.Sandbox, PodCIDR: cluster.PodCIDR})
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := api.BootstrapTokens(t.Context(), req.Node)
		if err != nil || len(tokens) == 0 {
			t.Fatalf("%d tokens, %v", len(tokens), err)
		}
		for _, token := range tokens {
			if err := api.RevokeToken(t.Context(), token.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, sum := w.apply(-1)
	h := sum.Hosts[0]
	var se *steps.Error
	if h.Failed != "kubelet" || !errors.As(h.Err, &se) || !strings.HasPrefix(h.Source, "quickstart.join.hcl:") {
		t.Fatalf("failed at %s (%s): %v, want the kubelet, with its place in the plan", h.Failed, h.Source, h.Err)
	}
	if !strings.Contains(se.Detail, "credentials") {
		t.Errorf("the error does not say that the token was refused: %s", se.Detail)
	}
	w.before = nil
	w.mustConverge()
	w.mustBeQuiet()
}

// TestDriftIsFixedAlone: a manual change is found and fixed, and nothing else is changed. Afterwards the machines are
// as they were before it.
func TestDriftIsFixedAlone(t *testing.T) {
	w := newWorld(t)
	w.mustConverge()
	h, dir := w.box()
	other := w.known().Nodes[1].Connection.Sandbox.Path
	ctx := t.Context()
	for _, c := range []struct {
		name  string
		drift func() error
		step  string
	}{
		{"a file", func() error {
			return os.WriteFile(filepath.Join(dir, "C", "k", "README.txt"), []byte("edited by hand\n"), 0o644)
		}, "motd"},
		{"a stopped service", func() error { return h.StopService(ctx, "kube-proxy") }, "kube_proxy"},
		{"a deleted rule", func() error { return h.DeleteFirewallRule(ctx, "nodejoin-kubelet") }, "firewall_kubelet"},
		{"a taint removed", func() error { return w.cluster().SetTaints(ctx, "win-1", nil, w.node("win-1").Taints) },
			"node_taints"},
		{"a service that runs something else", func() error {
			s, err := h.Service(ctx, "flanneld")
			if err != nil {
				return err
			}
			s.Command[len(s.Command)-1] += "-other"
			return h.UpdateService(ctx, s.ServiceConfig)
		}, "flanneld"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, beside, node := kept(snapshot(t, dir)), snapshot(t, other), w.node("win-1")
			if err := c.drift(); err != nil {
				t.Fatal(err)
			}
			r, sum := w.apply(-1)
			for _, h := range r.Hosts {
				for _, s := range h.Steps {
					// The gates behind a pending step are pending, too.
					if a := s.Result.Change.Action; !s.Result.Change.NoOp() && a != steps.ActionWait &&
						(h.Node.Name != "win-1" || s.Spec.ID != c.step) {
						t.Errorf("%s.%s differs: %+v", h.Node.Name, s.Spec.ID, s.Result.Change)
					}
				}
			}
			if have := sum.Hosts[0].Changed; !slices.Equal(have, []string{c.step}) {
				t.Errorf("changed %v, want only %s", have, c.step)
			}
			if d := cmp.Diff(before, kept(snapshot(t, dir))); d != "" {
				t.Errorf("the machine before the drift (-) and after it was fixed (+):\n%s", d)
			}
			if d := cmp.Diff(beside, snapshot(t, other)); d != "" {
				t.Errorf("the other machine was changed (-before +after):\n%s", d)
			}
			after := w.node("win-1")
			delete(node.Annotations, kube.LastApply)
			delete(after.Annotations, kube.LastApply)
			if d := cmp.Diff(node, after); d != "" {
				t.Errorf("the Node before and after (-before +after):\n%s", d)
			}
			w.mustBeQuiet()
		})
	}
}

// TestDeletedPrograms: programs that were deleted while their services run are restored.
func TestDeletedPrograms(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	box := w.known().Nodes[0].Connection.Sandbox.Path
	for _, name := range []string{"kubelet.exe", "flanneld.exe"} {
		if err := os.Remove(filepath.Join(box, "C", "k", name)); err != nil {
			t.Fatal(err)
		}
	}
	w.mustConverge()
	w.mustBeQuiet()
}

// TestClusterBeforeHosts: a cluster that cannot be opened (its kubeconfig, the pin of its CA) is reported before any
// host is contacted.
func TestClusterBeforeHosts(t *testing.T) {
	w := newWorld(t)
	wrong := errors.New("wrong pin")
	s := engine.New(w.compile(), engine.Options{
		Emit:    func(event.Event) {},
		Cluster: func(context.Context) (kube.API, error) { return nil, wrong },
		Connect: func(_ context.Context, n plan.Node) (transport.Conn, error) {
			t.Errorf("%s was connected to", n.Name)
			return nil, wrong
		},
	})
	defer s.Close()
	r := s.Check(t.Context())
	if r.Cluster == nil || !strings.Contains(r.Cluster.Detail, "wrong pin") {
		t.Errorf("have %+v, want the error of the cluster", r.Cluster)
	}
}

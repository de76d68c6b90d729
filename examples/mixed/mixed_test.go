// Package mixed_test runs the plan of a mixed cluster as the command does.
package mixed_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// workspace is a copy of the example, as a run leaves its sandboxes beside the plan.
func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, pattern := range []string{"*.join.hcl", "mirror/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func compile(t *testing.T, dir string) *plan.Compiled {
	t.Helper()
	agent := func(os_, arch, connection string) (steps.Source, error) {
		path := filepath.Join(dir, "agent.txt")
		text := []byte("stand-in for the agent\n")
		sum := sha256.Sum256(text)
		return steps.Source{File: path, SHA256: hex.EncodeToString(sum[:])}, os.WriteFile(path, text, 0o644)
	}
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Agent: agent})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	return c
}

// session is one run of the command, without its output.
func session(t *testing.T, c *plan.Compiled) *engine.Session {
	s := engine.New(c, engine.Options{
		Connect: func(_ context.Context, n plan.Node) (transport.Conn, error) {
			s := n.Connection.Sandbox
			h, err := sandbox.Open(sandbox.Config{Path: s.Path, OS: n.OS, Build: s.Build, IP: s.IP, Hostname: n.Name, DataDir: n.DataDir, ClusterDir: s.ClusterDir})
			if err != nil {
				return nil, err
			}
			return transport.NewLocal(h, artifact.New(artifact.Options{Direct: true}), n.Name), nil
		},
		Cluster: func(context.Context) (kube.API, error) { return cluster(t, c), nil },
		Emit: func(e event.Event) {
			if d, ok := e.(event.StepDone); ok && d.Result == "failed" {
				t.Logf("%s %s: %s: %s", d.Host, d.Step, d.Summary, d.Detail)
			}
		},
	})
	t.Cleanup(s.Close)
	return s
}

func cluster(t *testing.T, c *plan.Compiled) *sandbox.Cluster {
	t.Helper()
	k, err := sandbox.OpenCluster(c.Cluster.Sandbox, c.Cluster.PodCIDR)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestJoinsBoth: one apply joins both, and a second one finds nothing to do.
func TestJoinsBoth(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := compile(t, workspace(t))
	run(t, ctx, c)
	for name, want := range map[string]struct {
		os     string
		taints int
	}{"win-1": {"windows", 1}, "lin-1": {"linux", 0}} {
		n, err := cluster(t, c).Node(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !n.Ready || n.Labels["kubernetes.io/os"] != want.os || len(n.Taints) != want.taints {
			t.Errorf("Node %+v", n)
		}
		if tokens, err := cluster(t, c).BootstrapTokens(ctx, name); err != nil || len(tokens) > 0 {
			t.Errorf("%d bootstrap tokens of %s are left, %v", len(tokens), name, err)
		}
	}
	for _, h := range run(t, ctx, c).Hosts {
		if h.Mutations > 0 || len(h.Changed) > 0 {
			t.Errorf("%s: the second apply changed %v with %d mutating calls", h.Node, h.Changed, h.Mutations)
		}
	}
	// What the recipe decides by facts of the machine.
	box := c.Nodes[0].Connection.Sandbox.Path
	for file, want := range map[string]string{"etc/containerd/config.toml": "SystemdCgroup = true\n", "var/lib/kubelet/config.yaml": "cgroupDriver: 'systemd'\n",
		"etc/kubernetes/kube-proxy.yaml": "mode: nftables\n", "etc/sysctl.d/90-nodejoin-net.bridge.bridge-nf-call-iptables.conf": "= 1\n"} {
		text, err := os.ReadFile(filepath.Join(box, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s of %s: no %q in it, %v:\n%s", file, c.Nodes[0].Name, want, err, text)
		}
	}
}

// TestAfterReboot: a Linux machine comes back without its modules and parameters, and
// the next run brings those alone.
func TestAfterReboot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := compile(t, workspace(t))
	run(t, ctx, c)
	s := c.Nodes[0].Connection.Sandbox
	h, err := sandbox.Open(sandbox.Config{Path: s.Path, OS: "linux", IP: s.IP, Hostname: c.Nodes[0].Name, ClusterDir: s.ClusterDir})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	for _, h := range run(t, ctx, c).Hosts {
		for _, step := range h.Changed {
			if !strings.HasPrefix(step, "module_") && !strings.HasPrefix(step, "sysctl_") && step != "max_map_count" {
				t.Errorf("%s: %s changed after a reboot", h.Node, step)
			}
		}
	}
	run(t, ctx, c)
}

// run checks and applies in a session of its own, as another process would.
func run(t *testing.T, ctx context.Context, c *plan.Compiled) *engine.Summary {
	t.Helper()
	s := session(t, c)
	for _, h := range s.Check(ctx).Hosts {
		if h.Err != nil {
			t.Fatalf("%s: %v", h.Node.Name, h.Err)
		}
		for _, st := range h.Steps {
			if st.Result.Err != nil {
				t.Fatalf("%s: %s: %v", h.Node.Name, st.Spec.ID, st.Result.Err)
			}
		}
	}
	r := s.Apply(ctx)
	for _, h := range r.Hosts {
		if h.Err != nil || h.Failed != "" {
			t.Fatalf("%s: %s: %v", h.Node, h.Failed, h.Err)
		}
	}
	return r
}

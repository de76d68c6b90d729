// Package quickstart_test runs the quickstart's plan as the command does.
package quickstart_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
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

// check gives the steps that have something to do, "node/step".
func check(t *testing.T, ctx context.Context, s *engine.Session) []string {
	t.Helper()
	var pending []string
	for _, h := range s.Check(ctx).Hosts {
		if h.Err != nil {
			t.Fatalf("%s: %v", h.Node.Name, h.Err)
		}
		for _, st := range h.Steps {
			if st.Result.Err != nil {
				t.Fatalf("%s/%s: %v", h.Node.Name, st.Spec.ID, st.Result.Err)
			}
			if !st.Result.Change.NoOp() {
				pending = append(pending, h.Node.Name+"/"+st.Spec.ID)
			}
		}
	}
	return pending
}

func apply(t *testing.T, ctx context.Context, s *engine.Session) *engine.Summary {
	t.Helper()
	sum := s.Apply(ctx)
	for _, h := range sum.Hosts {
		if h.Err != nil {
			t.Fatalf("%s: step %q: %v; not run: %v", h.Node, h.Failed, h.Err, h.NotRun)
		}
	}
	return sum
}

func TestJoin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := workspace(t)
	c := compile(t, dir)
	if len(c.Nodes) != 2 {
		t.Fatalf("%d nodes", len(c.Nodes))
	}

	s := session(t, c)
	if first := check(t, ctx, s); len(first) < 60 {
		t.Errorf("the first check finds %d changes: %v", len(first), first)
	}
	apply(t, ctx, s)

	for _, name := range []string{"win-1", "win-2"} {
		n, err := cluster(t, c).Node(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !n.Ready || n.Labels["example.com/pool"] != "windows" || n.Labels["kubernetes.io/os"] != "windows" || len(n.Taints) != 1 || n.Taints[0] != (kube.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}) {
			t.Errorf("Node %+v", n)
		}
		if tokens, err := cluster(t, c).BootstrapTokens(ctx, name); err != nil || len(tokens) > 0 {
			t.Errorf("%d bootstrap tokens of %s are left, %v", len(tokens), name, err)
		}
	}

	// A new session, as the next run is another process.
	s = session(t, c)
	if again := check(t, ctx, s); len(again) > 0 {
		t.Errorf("the second check still finds %v", again)
	}
	for _, h := range apply(t, ctx, s).Hosts {
		if h.Mutations > 0 || len(h.Changed) > 0 {
			t.Errorf("the second apply changed %v with %d mutating calls", h.Changed, h.Mutations)
		}
	}
}

// TestDrift: an edited configuration is mended, and nothing else: the service that
// reads it was started from what it will be again.
func TestDrift(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := compile(t, workspace(t))
	s := session(t, c)
	check(t, ctx, s)
	apply(t, ctx, s)

	var edited string
	err := filepath.WalkDir(c.Nodes[0].Connection.Sandbox.Path, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.EqualFold(filepath.Base(path), "net-conf.json") {
			edited = path
		}
		return err
	})
	if err != nil || edited == "" {
		t.Fatalf("net-conf.json of the sandbox: %q, %v", edited, err)
	}
	if err := os.WriteFile(edited, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s = session(t, c)
	if pending := check(t, ctx, s); !slices.Equal(pending, []string{"win-1/net_conf"}) {
		t.Errorf("pending: %v", pending)
	}
	apply(t, ctx, s)
	if again := check(t, ctx, session(t, c)); len(again) > 0 {
		t.Errorf("after mending, the check still finds %v", again)
	}
}

// TestNameTaken: another machine is to get the name of a Node that is Ready. It is
// refused before anything is changed; the machine of that Node is not.
func TestNameTaken(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := workspace(t)
	c := compile(t, dir)
	s := session(t, c)
	check(t, ctx, s)
	apply(t, ctx, s)
	before, err := cluster(t, c).Node(ctx, "win-1")
	if err != nil {
		t.Fatal(err)
	}

	for i := range c.Nodes {
		if c.Nodes[i].Name == "win-1" {
			box := *c.Nodes[i].Connection.Sandbox
			box.Path, box.IP = filepath.Join(dir, "another"), "192.0.2.77"
			c.Nodes[i].Connection.Sandbox = &box
		}
	}
	s = session(t, c)
	for _, h := range s.Check(ctx).Hosts {
		i := slices.IndexFunc(h.Steps, func(st engine.StepReport) bool { return st.Spec.ID == "name_free" })
		if i < 0 || (h.Steps[i].Result.Err != nil) != (h.Node.Name == "win-1") {
			t.Fatalf("%s: step %d: %+v", h.Node.Name, i, h.Steps[max(i, 0)].Result)
		}
	}
	for _, h := range s.Apply(ctx).Hosts {
		if h.Mutations > 0 || h.Node == "win-1" && (h.Failed != "name_free" || !strings.Contains(h.Err.Error(), "Ready at 192.0.2.11, this machine is 192.0.2.77")) {
			t.Errorf("%s: %d mutating calls, step %q failed: %v", h.Node, h.Mutations, h.Failed, h.Err)
		}
	}
	if after, err := cluster(t, c).Node(ctx, "win-1"); err != nil || after.InternalIP != before.InternalIP {
		t.Errorf("the Node is at %s now, %v", after.InternalIP, err)
	}
}

// TestMirror: the stand-ins are small, and what the plan says of them holds.
func TestMirror(t *testing.T) {
	text, err := os.ReadFile("quickstart.join.hcl")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("mirror/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Ext(name) == ".go" {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > 2048 {
			t.Errorf("%s has %d bytes", name, len(content))
		}
		if sum := sha256.Sum256(content); !strings.Contains(string(text), hex.EncodeToString(sum[:])) {
			t.Errorf("%s: the plan does not name its digest %x", name, sum)
		}
	}
}

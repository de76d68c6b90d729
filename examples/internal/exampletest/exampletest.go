// Package exampletest runs the plans of the examples in tests, as the command does.
package exampletest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host/hosttest"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// Workspace copies the plan of the current folder, with the mirror of the quickstart beside it, and returns the
// folder of the copy. A run creates its sandboxes there.
func Workspace(t testing.TB) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	hosttest.InMemory()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "quickstart", "mirror"), os.DirFS("../quickstart/mirror")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(here)
	file := name + ".join.hcl"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	locked, err := os.ReadFile(lock.FileName)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, lock.FileName), locked, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Compile returns the plan of a folder. A warning fails the test too, unless its summary is given.
func Compile(t testing.TB, dir string, vars map[string]string, warnings ...string) *plan.Compiled {
	t.Helper()
	agent := func(os_, arch, connection string) (steps.Source, error) {
		path := filepath.Join(dir, "agent.txt")
		text := []byte("stand-in for the agent\n")
		sum := sha256.Sum256(text)
		return steps.Source{File: path, SHA256: hex.EncodeToString(sum[:])}, os.WriteFile(path, text, 0o644)
	}
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Agent: agent, Vars: vars})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	for _, d := range diags {
		if d.Severity == hcl.DiagError || !slices.Contains(warnings, d.Summary) {
			t.Fatal(diags)
		}
	}
	return c
}

// Host is the sandbox of a node.
func Host(n plan.Node) (*sandbox.Host, error) { return openHost(context.Background(), n) }

func openHost(ctx context.Context, n plan.Node) (*sandbox.Host, error) {
	s := n.Connection.Sandbox
	return sandbox.Open(ctx, sandbox.Config{Path: s.Path, OS: n.OS, Build: s.Build, IP: s.IP, IP6: s.IP6,
		Hostname: n.Name, DataDir: n.DataDir, ClusterDir: s.ClusterDir})
}

// Cluster is the sandbox of the plan's cluster.
func Cluster(t testing.TB, c *plan.Compiled) *sandbox.Cluster {
	t.Helper()
	k, err := openCluster(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openCluster(ctx context.Context, c *plan.Compiled) (*sandbox.Cluster, error) {
	return sandbox.OpenCluster(ctx,
		sandbox.ClusterConfig{Dir: c.Cluster.Sandbox, PodCIDR: c.Cluster.PodCIDR, Version: "v" + c.Cluster.Version})
}

// Session is one run of the command, without its output.
func Session(t testing.TB, c *plan.Compiled) *engine.Session {
	direct := artifact.New(artifact.Options{Direct: true})
	s := engine.New(c, engine.Options{
		Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
			h, err := openHost(ctx, n)
			if err != nil {
				return nil, err
			}
			return transport.NewLocal(h, direct, h.LockDir()), nil
		},
		Cluster: func(ctx context.Context) (kube.API, error) { return openCluster(ctx, c) },
		Emit: func(e event.Event) {
			if d, ok := e.(event.StepDone); ok && d.Result == "failed" {
				t.Logf("%s %s: %s: %s", d.Host, d.Step, d.Summary, d.Detail)
			}
		},
	})
	t.Cleanup(s.Close)
	return s
}

// Check returns the changes to make, by "node/step".
func Check(t testing.TB, ctx context.Context, s *engine.Session) map[string]steps.Change {
	t.Helper()
	return changes(t, s.Check(ctx))
}

func changes(t testing.TB, r *engine.Report) map[string]steps.Change {
	t.Helper()
	pending := map[string]steps.Change{}
	for _, h := range r.Hosts {
		if h.Err != nil {
			t.Fatalf("%s: %v", h.Node.Name, h.Err)
		}
		for _, st := range h.Steps {
			if st.Result.Err != nil {
				t.Fatalf("%s/%s: %v", h.Node.Name, st.Spec.ID, st.Result.Err)
			}
			if !st.Result.Change.NoOp() {
				pending[h.Node.Name+"/"+st.Spec.ID] = st.Result.Change
			}
		}
	}
	return pending
}

// Apply makes the changes and returns those that changed something, by "node/step".
func Apply(t testing.TB, ctx context.Context, s *engine.Session) (changed []string, mutations int64) {
	t.Helper()
	for _, h := range s.Apply(ctx).Hosts {
		if h.Err != nil {
			t.Fatalf("%s: step %q: %v; not run: %v", h.Node, h.Failed, h.Err, h.NotRun)
		}
		for _, id := range h.Changed {
			changed = append(changed, h.Node+"/"+id)
		}
		mutations += h.Mutations
	}
	return changed, mutations
}

// Run checks and applies in a new session, as another process would.
func Run(t testing.TB, ctx context.Context, c *plan.Compiled) (changed []string, mutations int64) {
	t.Helper()
	s := Session(t, c)
	Check(t, ctx, s)
	return Apply(t, ctx, s)
}

// Join is Run on fresh machines. The plan and the apply must have the same number of changes.
func Join(t testing.TB, ctx context.Context, c *plan.Compiled) (changed []string, mutations int64) {
	t.Helper()
	s := Session(t, c)
	r := s.Check(ctx)
	pending := changes(t, r)
	changed, mutations = Apply(t, ctx, s)
	planned, unknown := 0, 0
	for action, n := range r.Actions() {
		switch action {
		case steps.ActionWait: // it changes nothing
		case steps.ActionUnknown:
			unknown += n
		default:
			planned += n
		}
	}
	maps.DeleteFunc(pending, func(_ string, c steps.Change) bool { return c.Action == steps.ActionWait })
	if len(changed) < planned || len(changed) > planned+unknown {
		t.Errorf("the plan counts %d changes, and %d that are not known yet; the apply %d:\n%s", planned,
			unknown, len(changed),
			cmp.Diff(slices.Sorted(maps.Keys(pending)), slices.Sorted(slices.Values(changed))))
	}
	return changed, mutations
}

// Package quickstart_test runs the quickstart's plan as the command does.
package quickstart_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/steps/engine"
	"nodejoin/steps/kube"
)

func TestJoin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exampletest.Compile(t, exampletest.Workspace(t), nil)
	if len(c.Nodes) != 2 {
		t.Fatalf("%d nodes", len(c.Nodes))
	}

	s := exampletest.Session(t, c)
	if first := exampletest.Check(t, ctx, s); len(first) < 60 {
		t.Errorf("the first check finds %d changes: %v", len(first), first)
	}
	exampletest.Apply(t, ctx, s)

	for _, name := range []string{"win-1", "win-2"} {
		n, err := exampletest.Cluster(t, c).Node(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !n.Ready || n.Labels["example.com/pool"] != "windows" || n.Labels["kubernetes.io/os"] != "windows" ||
			len(n.Taints) != 1 || n.Taints[0] != (kube.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}) {
			t.Errorf("Node %+v", n)
		}
		if tokens, err := exampletest.Cluster(t, c).BootstrapTokens(ctx, name); err != nil || len(tokens) > 0 {
			t.Errorf("%d bootstrap tokens of %s are left, %v", len(tokens), name, err)
		}
	}

	// A new session, because the next run is another process.
	s = exampletest.Session(t, c)
	if again := exampletest.Check(t, ctx, s); len(again) > 0 {
		t.Errorf("the second check still finds %v", again)
	}
	if changed, mutations := exampletest.Apply(t, ctx, s); len(changed) > 0 || mutations > 0 {
		t.Errorf("the second apply changed %v with %d mutating calls", changed, mutations)
	}
}

// TestDrift: an edited configuration is fixed, and nothing else changes: the service
// that reads it was started with the content that the file gets back.
func TestDrift(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exampletest.Compile(t, exampletest.Workspace(t), nil)
	exampletest.Run(t, ctx, c)

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
	s := exampletest.Session(t, c)
	pending := slices.Sorted(maps.Keys(exampletest.Check(t, ctx, s)))
	if !slices.Equal(pending, []string{"win-1/net_conf"}) {
		t.Errorf("pending: %v", pending)
	}
	exampletest.Apply(t, ctx, s)
	if again := exampletest.Check(t, ctx, exampletest.Session(t, c)); len(again) > 0 {
		t.Errorf("after fixing, the check still finds %v", again)
	}
}

// TestNameTaken: the plan gives another machine the name of a Ready Node. The machine is
// refused before anything is changed; the Node's own machine is not refused.
func TestNameTaken(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := exampletest.Workspace(t)
	c := exampletest.Compile(t, dir, nil)
	exampletest.Run(t, ctx, c)
	before, err := exampletest.Cluster(t, c).Node(ctx, "win-1")
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
	s := exampletest.Session(t, c)
	for _, h := range s.Check(ctx).Hosts {
		i := slices.IndexFunc(h.Steps, func(st engine.StepReport) bool { return st.Spec.ID == "name_free" })
		if i < 0 || (h.Steps[i].Result.Err != nil) != (h.Node.Name == "win-1") {
			t.Fatalf("%s: step %d: %+v", h.Node.Name, i, h.Steps[max(i, 0)].Result)
		}
	}
	for _, h := range s.Apply(ctx).Hosts {
		if h.Mutations > 0 || h.Node == "win-1" && (h.Failed != "name_free" ||
			!strings.Contains(h.Err.Error(), "Ready at 192.0.2.11, this machine is 192.0.2.77")) {
			t.Errorf("%s: %d mutating calls, step %q failed: %v", h.Node, h.Mutations, h.Failed, h.Err)
		}
	}
	if after, err := exampletest.Cluster(t, c).Node(ctx, "win-1"); err != nil || after.InternalIP != before.InternalIP {
		t.Errorf("the Node is at %s now, %v", after.InternalIP, err)
	}
}

// TestMirror: the stand-ins are small, and each one's digest is in the lock of an example.
func TestMirror(t *testing.T) {
	var locks strings.Builder
	files, err := filepath.Glob("../*/nodejoin.lock.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		locks.Write(text)
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
		if sum := sha256.Sum256(content); !strings.Contains(locks.String(), hex.EncodeToString(sum[:])) {
			t.Errorf("%s: no lock has its digest %x", name, sum)
		}
	}
}

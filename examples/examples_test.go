// Package examples_test checks that the plans beside it serve their purpose: to be read,
// and to run.
package examples_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/plan"
	"nodejoin/plan/render"
	"nodejoin/steps/host"
)

// special lists what an example needs besides its folder. Most need nothing.
var special = map[string]struct {
	warnings []string                                    // summaries of the warnings that it must have
	prepare  func(ctx context.Context, dir string) error // what its head tells the reader to do first
	overSSH  bool                                        // its hosts are real; sandboxes stand in for them
	reboots  bool                                        // what a leave restores takes effect only after a reboot
}{
	"docker":      {warnings: []string{"deprecated runtime"}},
	"mcr":         {warnings: []string{"deprecated runtime"}},
	"kubeconfig":  {prepare: kubeconfig},
	"proxy":       {reboots: true},
	"reboot":      {reboots: true},
	"windows-ssh": {prepare: ownValues, overSSH: true},
}

// longest is how many lines an example may have. People read it.
const longest = 130

// TestExamples: each example is valid and in canonical form, renders, joins its machines,
// then has nothing to do. A leave restores each machine to its earlier state.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*/*.join.hcl")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "quickstart", "mirror"), os.DirFS("quickstart/mirror")); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		name := filepath.Dir(file)
		if name == "bench" { // a plan for measurements, which has its own test
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			if file != filepath.Join(name, name+".join.hcl") {
				t.Errorf("%s: an example is one file with the name of its folder", file)
			}
			if !bytes.Contains(index, []byte("["+name+"]("+name+"/"+name+".join.hcl)")) {
				t.Error("README.md does not name it")
			}
			canonical(t, file)
			t.Parallel()
			dir := filepath.Join(root, name)
			copyPlan(t, name, dir)
			life(t, name, dir)
		})
	}
	if tried < 17 {
		t.Errorf("only %d examples were found", tried)
	}
	for name := range special {
		if _, err := os.Stat(filepath.Join(name, name+".join.hcl")); err != nil {
			t.Error(err)
		}
	}
}

func canonical(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	form, diags := plan.Format(file, text)
	if diags.HasErrors() || !bytes.Equal(form, text) {
		t.Errorf("it is not in canonical form (nodejoin fmt): %v", diags)
	}
	if n := bytes.Count(text, []byte("\n")); n > longest || text[0] != '#' {
		t.Errorf("it has %d lines and begins with %q, want at most %d, and a comment that says what the example shows", n,
			text[0], longest)
	}
}

// copyPlan copies the files of an example. The mirror already has the artifacts that it reads.
func copyPlan(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != from && (d.Name() == "mirror" || d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, strings.TrimPrefix(path, from)), 0o755)
		case filepath.Ext(path) == ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, strings.TrimPrefix(path, from)), text, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// theirs are folders that a machine has from the start.
var theirs = map[string][]string{
	"windows": {`C:\ProgramData`, `C:\Program Files`},
	"linux":   {"/etc", "/opt", "/run", "/usr/local/bin", "/var/lib", "/var/log"},
}

// life takes the machines of an example through a join and a leave.
func life(t *testing.T, name, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if prepare := special[name].prepare; prepare != nil {
		if err := prepare(ctx, dir); err != nil {
			t.Fatal(err)
		}
	}
	c := exampletest.Compile(t, dir, nil, special[name].warnings...)
	if len(c.Nodes) == 0 {
		t.Fatal("it has no nodes")
	}
	if special[name].overSSH {
		sandboxed(c, dir)
	}
	if rendered, err := render.Nodes(c); err != nil || len(rendered) < 10 {
		t.Fatalf("%d files rendered, %v", len(rendered), err)
	}

	before := map[string]map[string]string{}
	for _, n := range c.Nodes {
		h, err := exampletest.Host(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range theirs[n.OS] {
			if err := h.Mkdir(ctx, folder, host.AccessDefault); err != nil {
				t.Fatal(err)
			}
		}
		before[n.Name] = exampletest.Snapshot(t, n.Connection.Sandbox.Path)
	}
	if changed, _ := exampletest.Join(t, ctx, c); len(changed) == 0 {
		t.Fatal("the first apply changed nothing")
	}
	cluster := exampletest.Cluster(t, c)
	for _, n := range c.Nodes {
		if k, err := cluster.Node(ctx, n.Name); err != nil || !k.Ready && name != "network-none" {
			t.Errorf("the Node %s after the join: %+v, %v", n.Name, k, err)
		}
	}
	again := exampletest.Session(t, c)
	if pending := exampletest.Check(t, ctx, again); len(pending) > 0 {
		t.Errorf("the second plan shows %v", pending)
	}
	if changed, mutations := exampletest.Apply(t, ctx, again); len(changed) > 0 || mutations > 0 {
		t.Errorf("the second apply changed %v with %d mutating calls", changed, mutations)
	}
	exampletest.Leave(t, ctx, c)
	for _, n := range c.Nodes {
		if special[name].reboots {
			h, err := exampletest.Host(n)
			if err == nil {
				err = h.Reboot(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		after := exampletest.Snapshot(t, n.Connection.Sandbox.Path)
		delete(after, "state: modules") // modules stay in the kernel until the next boot, because others may use them
		if d := cmp.Diff(before[n.Name], after); d != "" {
			t.Errorf("%s before the join (-) and after the leave (+):\n%s", n.Name, d)
		}
	}
}

package plan_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/plan/eval"
	"nodejoin/plan/lock"
	"nodejoin/steps"
)

// TestLimits compiles plans whose expressions exceed the limits: each gives one diagnostic, at the expression.
func TestLimits(t *testing.T) {
	const loops = `locals {
  n = range(200)
  small = 1
  large = [for a in local.n : [for b in local.n : [for c in local.n : "${a} ${b} ${c}"]]]
}
`
	for _, c := range []struct {
		name   string
		limits plan.Limits
		want   string
	}{
		{"time", plan.Limits{Time: 50 * time.Millisecond, Memory: 1 << 40}, "After 50ms the plan is not compiled."},
		{"memory", plan.Limits{Time: time.Minute, Memory: 128 << 20}, "takes more than 128 MiB of memory."},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "main"+plan.Suffix), loops)
			p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Limits: c.limits})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			out, diags := p.Compile()
			if out != nil || len(diags) != 1 || !strings.Contains(diags[0].Detail, c.want) {
				t.Fatalf("%v, %v; want one diagnostic with %q", out, diags, c.want)
			}
			if at := diags[0].Subject; at == nil || at.Start.Line != 4 {
				t.Errorf("the diagnostic points to %v, want line 4", at)
			}
		})
	}
}

// TestManyLocals: the time for locals is linear in their number, not quadratic.
func TestManyLocals(t *testing.T) {
	const n = 20_000 // these once took more than a minute
	var b strings.Builder
	b.WriteString("locals {\n  l0 = 0\n")
	for i := range n {
		fmt.Fprintf(&b, "  l%d = local.l0\n", i+1)
	}
	b.WriteString("}\n")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "main"+plan.Suffix), b.String())
	limits := plan.Limits{Time: 30 * time.Second, Memory: 1 << 40}
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Limits: limits})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if _, diags = p.Compile(); diags.HasErrors() {
		t.Error(diags)
	}
}

// TestLimitsOfPrograms: the time of a program has its own limit and does not count as time of the compilation.
func TestLimitsOfPrograms(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "main"+plan.Suffix), `data "exec" "slow" { program = ["slow"] }
output "x" { value = data.exec.slow.value }
`)
	limits := plan.Limits{Time: 500 * time.Millisecond, Memory: 1 << 40}
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Limits: limits,
		Program: func(eval.Program) ([]byte, error) {
			time.Sleep(2 * limits.Time) // longer than the limit of the compilation
			return []byte("1"), nil
		}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if out, diags := p.Compile(); diags.HasErrors() || string(out.Outputs[0].Value) != "1" {
		t.Error(out, diags)
	}
}

// TestLimitsOfAgents: the time in which the agent of a plan is built does not count as time of the compilation.
func TestLimitsOfAgents(t *testing.T) {
	limits := plan.Limits{Time: 2 * time.Second, Memory: 1 << 40}
	p, diags := plan.Load("../examples/quickstart", plan.Options{Version: "0.1.0", Limits: limits,
		Agent: func(os, arch, connection string) (steps.Source, error) {
			time.Sleep(limits.Time + limits.Time/2) // longer than the limit of the compilation
			return testAgent(os, arch, connection)
		}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if _, diags := p.Compile(); diags.HasErrors() {
		t.Error(diags)
	}
}

// TestLargeLock: a lock with many entries that no node needs takes linear time and gives one readable diagnostic.
func TestLargeLock(t *testing.T) {
	var b strings.Builder
	b.WriteString("format = 1\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "artifact \"a%d\" \"linux/amd64\" {\n  address = \"x\"\n  size = 1\n  sha256 = \"%064d\"\n"+
			"  verified = \"none\"\n}\n", i, i)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "main"+plan.Suffix),
		"node \"a\" {\n  os = \"windows\"\n  connection \"sandbox\" { path = \"box\" }\n}\n")
	writeFile(t, filepath.Join(dir, lock.FileName), b.String())
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	_, diags = p.Compile()
	unused := 0
	for _, d := range diags {
		if d.Summary == "unused lock entry" && len(d.Detail) < 1000 && strings.Contains(d.Detail, "and 4980 more") {
			unused++
		}
	}
	if unused != 1 || diags.HasErrors() {
		t.Fatalf("%.2000s", diags.Error())
	}
}

// TestMemoryOfNodes: nodes of one kind share the texts of their steps, so that 10,000 of them take 300 MB at most,
// with the garbage that Go leaves (see BenchmarkCompile). It runs in a process of its own, as what TestLimits began
// runs on.
func TestMemoryOfNodes(t *testing.T) {
	const nodes, most, alone = 1000, 16 << 10, "NODEJOIN_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryOfNodes$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestMemoryOfNodes") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	p, diags := plan.Load(manyNodes(t, nodes), plan.Options{Version: "0.1.0", Agent: testAgent})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	out, diags := p.Compile()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(len(out.Nodes)); each > most {
		t.Errorf("%d bytes for each node, want %d at most", each, most)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(out)
}

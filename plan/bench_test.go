package plan_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"nodejoin/plan"
)

// BenchmarkCompile compiles a plan of N Windows nodes of a cluster, each with the
// recipe's steps and three of the plan. MB-from-OS is the memory that the process
// has got from the operating system so far. It never shrinks, so it bounds the peak.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := manyNodes(b, n)
			b.ResetTimer()
			for b.Loop() {
				p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Agent: testAgent})
				if diags.HasErrors() {
					b.Fatal(diags)
				}
				out, diags := p.Compile()
				if diags.HasErrors() {
					b.Fatal(diags)
				}
				if len(out.Nodes) != n {
					b.Fatalf("%d nodes, want %d", len(out.Nodes), n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/node")
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/1e6, "MB-from-OS")
		})
	}
}

func manyNodes(t testing.TB, n int) string {
	dir := t.TempDir()
	for _, name := range []string{"cluster", "runtime", "network", "artifacts"} {
		src, err := os.ReadFile(filepath.Join("testdata", "with", name+plan.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		if name == "cluster" { // with a /24 for each of 10,000 nodes
			src = bytes.Replace(src, []byte("{\n"), []byte("{\n  pod_cidr = \"10.128.0.0/9\"\n"), 1)
		}
		writeFile(t, filepath.Join(dir, name+plan.Suffix), string(src))
	}
	writeFile(t, filepath.Join(dir, "motd.tpl"), "${name} has the address ${ip}\n")
	var s strings.Builder
	s.WriteString("locals { hosts = {\n")
	for i := range n {
		fmt.Fprintf(&s, "  win-%d = \"10.%d.%d.%d\"\n", i, 1+i>>16, i>>8&255, i&255)
	}
	s.WriteString(`} }
profile "windows" {
  os = "windows"
  labels = { "example.com/pool" = "windows" }
  taint {
    key    = "os"
    value  = "windows"
    effect = "NoSchedule"
  }
}
node "win" {
  for_each = local.hosts
  profile  = profile.windows
  connection "ssh" { host = each.value }
}
step "file" "motd" {
  path    = "C:\\k\\motd.txt"
  content = templatefile("motd.tpl", { name = self.name, ip = self.management_ip })
  after   = ["kubelet"]
}
step "env" "e" {
  for_each = { A = "1", B = "2" }
  name     = each.key
  value    = each.value
}
`)
	writeFile(t, filepath.Join(dir, "plan"+plan.Suffix), s.String())
	return dir
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

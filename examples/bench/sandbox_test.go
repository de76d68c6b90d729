package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"nodejoin/examples/internal/exampletest"
)

// BenchmarkSandbox runs the quickstart's plan with many sandbox nodes. It measures the cost
// of nodejoin itself per node, and its peak memory so far. Run it with -benchtime 1x.
//
// 1,000 nodes on two idle cores (2026-11-23): check 5.0 s, apply 78 s, check again 7.5 s. 80 nodes: 0.4 s,
// 6.8 s, 0.9 s; 58 MB. Peak memory of the command for 1,000 nodes (/usr/bin/time -v, 2026-11-25): plan 246 MB, apply
// 271 MB.
func BenchmarkSandbox(b *testing.B) {
	for _, nodes := range []int{80, 1000} {
		c := exampletest.Compile(b, many(b, nodes), nil)
		check := func(b *testing.B) int { return len(exampletest.Check(b, b.Context(), exampletest.Session(b, c))) }
		apply := func(b *testing.B) int {
			changed, _ := exampletest.Run(b, b.Context(), c)
			return len(changed)
		}
		for _, part := range []struct {
			name    string
			run     func(*testing.B) int
			changes bool
		}{{"check", check, true}, {"apply", apply, true}, {"check-again", check, false}} {
			b.Run(fmt.Sprintf("%d/%s", nodes, part.name), func(b *testing.B) {
				for b.Loop() {
					if n := part.run(b); part.changes && n < nodes || !part.changes && n > 0 {
						b.Fatalf("%d changes", n)
					}
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/1e6, "MB")
			})
		}
	}
}

// many is the quickstart with n nodes, in its own folder.
func many(b *testing.B, nodes int) (dir string) {
	b.Helper()
	const quickstart = "../quickstart"
	text, err := os.ReadFile(filepath.Join(quickstart, "quickstart.join.hcl"))
	if err != nil {
		b.Fatal(err)
	}
	var hosts strings.Builder
	for i := range nodes {
		fmt.Fprintf(&hosts, "    \"win-%d\" = \"198.18.%d.%d\"\n", i+1, i/250, i%250+1)
	}
	plan := strings.NewReplacer(`{ "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }`, "{\n"+hosts.String()+"  }",
		`"10.244.0.0/16"`, `"10.240.0.0/12"`).Replace(string(text))
	dir = b.TempDir()
	locked, err := os.ReadFile(filepath.Join(quickstart, "nodejoin.lock.hcl"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "nodejoin.lock.hcl"), locked, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "mirror"), os.DirFS(filepath.Join(quickstart, "mirror"))); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "many.join.hcl"), []byte(plan), 0o644); err != nil {
		b.Fatal(err)
	}
	return dir
}

//go:build unix

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

// BenchmarkFleet runs a plan of two steps on up to 5,000 sandboxes in this process: its cost is linear in the number
// of hosts. Run it with -benchtime 1x.
func BenchmarkFleet(b *testing.B) {
	for _, hosts := range []int{500, 1000, 2500, 5000} {
		dir := b.TempDir()
		var names strings.Builder
		for i := range hosts {
			fmt.Fprintf(&names, "h%d, ", i)
		}
		text := fmt.Sprintf(`node "host" {
  for_each = toset(split(", ", trimsuffix(%q, ", ")))
  name     = each.key
  os       = "linux"
  connection "sandbox" { path = ".sandbox/${each.key}" }
}
step "directory" "dir" { path = "/srv/fleet" }
step "file" "file" {
  path    = "/srv/fleet/name"
  content = "${self.name}\n"
}
`, names.String())
		if err := os.WriteFile(filepath.Join(dir, "fleet.join.hcl"), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		for _, part := range []struct {
			name string
			want int // changes of a host
		}{{"apply", 2}, {"no-changes", 0}} {
			b.Run(fmt.Sprintf("%d/%s", hosts, part.name), func(b *testing.B) {
				began := cpu(b)
				for b.Loop() {
					c := exampletest.Compile(b, dir, nil)
					changed, _ := exampletest.Run(b, b.Context(), c)
					if len(changed) != part.want*hosts {
						b.Fatalf("%d changes, want %d", len(changed), part.want*hosts)
					}
				}
				b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N*hosts), "CPU-µs/host")
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/1e6, "MB-from-OS")
			})
		}
	}
}

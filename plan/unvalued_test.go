package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/plan"
)

// Examples that need values are validated without them: they are valid, and a misspelt argument is found.
func TestUnvaluedExamples(t *testing.T) {
	for _, c := range []struct{ example, old, new, want string }{
		{"windows-ssh", "    host ", "    hots ", `"hots"`},
		{"windows-ssh", "pod_cidr ", "pod_cdir ", `"pod_cdir"`},
		{"bench", "  min_free = ", "  min_fre = ", `"min_fre"`},
		{"bench", "    known_hosts = [", "    known_host = [", `"known_host"`},
	} {
		dir := t.TempDir()
		from := filepath.Join("..", "examples", c.example)
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		opt := plan.Options{Version: "0.1.0", Agent: testAgent, Unvalued: true}
		p, diags := plan.Load(dir, opt)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		out, diags := p.Compile()
		if diags.HasErrors() || len(out.Unvalued) < 4 {
			t.Errorf("%s: %v", c.example, diags)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.join.hcl"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), c.old, c.new, 1)
		if changed == string(text) {
			t.Fatalf("%s has no %q", c.example, c.old)
		}
		if err := os.WriteFile(files[0], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _ = plan.Load(dir, opt)
		_, diags = p.Compile()
		if !strings.Contains(diags.Error(), c.want) {
			t.Errorf("%s: the misspelt argument %s is not found: %v", c.example, c.want, diags)
		}
	}
}

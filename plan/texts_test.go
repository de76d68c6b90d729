package plan_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nodejoin/plan"
	"nodejoin/plan/source"
)

// TestTexts: the texts of a plan and its modules have names of their own, which stay in the folder that they are
// written to and have no path of this machine.
func TestTexts(t *testing.T) {
	dir := t.TempDir()
	node := `node "w" {
  os = "windows"
  connection "sandbox" { path = "box" }
}
`
	digest := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, text := range map[string]string{
		"p/a.join.hcl": node + `module "a" { source = "../a/base" }
module "b" { source = "../b/base" }
module "c" {
  source = "https://git.example/nodes.tar.gz"
  sha256 = "` + digest + `"
  path   = "base"
}
`,
		"a/base/m.join.hcl": "# a\n", "b/base/m.join.hcl": "# b\n", "cache/base/m.join.hcl": "# c\n",
	} {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, diags := plan.Load(filepath.Join(dir, "p"), plan.Options{Version: "0.1.0",
		Module: func(source.Remote) (string, error) { return filepath.Join(dir, "cache"), nil }})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var have []string
	for _, text := range c.Texts() {
		have = append(have, text.Name)
	}
	slices.Sort(have)
	want := []string{"a.join.hcl", "nodes.tar.gz@0123456789ab/base/m.join.hcl", "up/a/base/m.join.hcl",
		"up/b/base/m.join.hcl"}
	if !slices.Equal(have, want) {
		t.Errorf("names %q, want %q", have, want)
	}
}

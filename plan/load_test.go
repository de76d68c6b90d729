package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/plan"
)

const minimal = `node "a" {
  os = "linux"
  connection "local" {}
}
`

func load(t *testing.T, path string, opt plan.Options) (*plan.Compiled, string) {
	t.Helper()
	p, list := plan.Load(path, opt)
	var out *plan.Compiled
	if !list.HasErrors() {
		c, more := p.Compile()
		out, list = c, append(list, more...)
	}
	return out, list.Error()
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, file string)
		want string
	}{
		{"huge", func(t *testing.T, file string) {
			writeFile(t, file, minimal)
			if err := os.Truncate(file, 9<<20); err != nil {
				t.Fatal(err)
			}
		}, "has more than 8388608 bytes"},
		{"a folder", func(t *testing.T, file string) {
			if err := os.Mkdir(file, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "holds no file that ends in .join.hcl"},
		{"dangling link", func(t *testing.T, file string) {
			if err := os.Symlink("nowhere", file); err != nil {
				t.Skip(err)
			}
		}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, filepath.Join(dir, "a"+plan.Suffix))
			out, diags := load(t, dir, plan.Options{Version: "0.1.0"})
			if out != nil || !strings.Contains(diags, c.want) {
				t.Errorf("have %q, want %q", diags, c.want)
			}
		})
	}
}

// A device or pipe never ends; reading it must not hang.
func TestFunctionFileRefusesDevices(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"+plan.Suffix), minimal+`step "file" "f" {
  path    = "/a"
  content = file("/dev/zero")
}`)
	if out, diags := load(t, dir, plan.Options{}); out != nil || !strings.Contains(diags, "/dev/zero is not a file") {
		t.Errorf("have %q", diags)
	}
}

// The plan's files are found wherever it is read from. Hidden files and files
// with other names do not belong to the plan.
func TestLoadFolder(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"+plan.Suffix), minimal)
	writeFile(t, filepath.Join(dir, "b"+plan.Suffix),
		"step \"file\" \"f\" {\n  path = \"/a\"\n  content = file(\"x.txt\")\n}\n")
	writeFile(t, filepath.Join(dir, "x.txt"), "text")
	writeFile(t, filepath.Join(dir, ".hidden"+plan.Suffix), "broken {")
	writeFile(t, filepath.Join(dir, "other.hcl"), "broken {")
	t.Chdir(filepath.Dir(dir))
	out, diags := load(t, filepath.Base(dir), plan.Options{Version: "0.1.0"})
	if out == nil {
		t.Fatal(diags)
	}
	if have, want := string(out.Nodes[0].Steps[0].Args.JSON()), `{"content":"text","path":"/a"}`; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	if out.Dir != dir {
		if real, _ := filepath.EvalSymlinks(dir); out.Dir != real {
			t.Errorf("have %s, want %s", out.Dir, dir)
		}
	}
}

// Each Compile reads the plan's inputs again.
func TestCompileTwice(t *testing.T) {
	dir := t.TempDir()
	vars := filepath.Join(dir, "v.joinvars")
	writeFile(t, filepath.Join(dir, "a"+plan.Suffix), minimal+`variable "v" { type = string }
step "file" "f" {
  path    = "/a"
  content = var.v
}`)
	writeFile(t, vars, `v = "one"`)
	p, list := plan.Load(dir, plan.Options{Version: "0.1.0", VarFiles: []string{vars}})
	if list.HasErrors() {
		t.Fatal(list)
	}
	for _, text := range []string{"one", "two"} {
		writeFile(t, vars, `v = "`+text+`"`)
		out, list := p.Compile()
		if list.HasErrors() {
			t.Fatal(list)
		}
		if have := string(out.Nodes[0].Steps[0].Args.JSON()); !strings.Contains(have, text) {
			t.Errorf("have %s, want %s in it", have, text)
		}
	}
}

func TestVariableFileJSON(t *testing.T) {
	dir := t.TempDir()
	vars := filepath.Join(dir, "v.json")
	writeFile(t, filepath.Join(dir, "a"+plan.Suffix), minimal+`variable "v" { type = list(string) }
step "file" "f" {
  path    = "/a"
  content = join(",", var.v)
}`)
	writeFile(t, vars, `{"v": ["a", "b"]}`)
	out, diags := load(t, dir, plan.Options{Version: "0.1.0", VarFiles: []string{vars}})
	if out == nil {
		t.Fatal(diags)
	}
	if have, want := string(out.Nodes[0].Steps[0].Args.JSON()), `{"content":"a,b","path":"/a"}`; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

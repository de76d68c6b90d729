package plan

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
)

// The committed reference is what this nodejoin takes.
func TestReferenceIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../examples/language.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(have), "\r\n", "\n")
	if d := cmp.Diff(Reference(), text); d != "" {
		t.Errorf("examples/language.md is stale; run `go generate ./plan` (-want +have):\n%s", d)
	}
}

// Every block, argument, kind, output and function is in the reference.
func TestReferenceIsComplete(t *testing.T) {
	text := Reference()
	has := func(what, s string) {
		if !strings.Contains(text, s) {
			t.Errorf("no %s %s in the reference", what, s)
		}
	}
	var walk func(b *blockSpec)
	walk = func(b *blockSpec) {
		for _, a := range b.attrs {
			has("argument", "| `"+a.name+"` |")
		}
		for _, in := range b.blocks {
			has("block", "`"+in.name)
			walk(in)
			for kind, k := range in.kinds {
				has("block", "`"+in.name+" "+quote(kind)+"`")
				walk(k)
			}
		}
	}
	walk(rootSpec)
	for _, k := range steps.Kinds() {
		_, section, ok := strings.Cut(text, "### `step "+quote(k.Name)+"`\n")
		if !ok {
			t.Errorf("no kind %s in the reference", k.Name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n##")
		for name := range kindSpecs()[k.Name].args {
			if !strings.Contains(section, "| `"+name+"` |") {
				t.Errorf("no argument %s of %s in the reference", name, k.Name)
			}
		}
		for _, o := range k.Outputs {
			if !strings.Contains(section, "`"+o+"`") {
				t.Errorf("no output %s of %s in the reference", o, k.Name)
			}
		}
	}
	for name := range (&compiler{}).functions() {
		has("function", "* `"+name+"(")
	}
}

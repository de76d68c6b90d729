package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/steps/kinds"
)

func reference(t *testing.T) string {
	t.Helper()
	text, err := Reference("../..")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every block and every kind of step has an example from a plan that a test compiles.
func TestReferenceHasExamples(t *testing.T) {
	body, _, _ := strings.Cut(reference(t), "\n## Functions")
	for _, section := range strings.Split(body, "\n##")[1:] {
		head, rest, _ := strings.Cut(section, "\n")
		if strings.Contains(head, "`") && !strings.Contains(rest, "\n```hcl\n") {
			t.Errorf("no example of%s", strings.TrimLeft(head, "#"))
		}
	}
}

// The committed reference matches the language of this nodejoin.
func TestReferenceIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../../../examples/language.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(have), "\r\n", "\n")
	if d := cmp.Diff(reference(t), text); d != "" {
		t.Errorf("examples/language.md is stale; run `go generate ./plan` (-want +have):\n%s", d)
	}
}

// Every block, argument, kind, output and function is in the reference.
func TestReferenceIsComplete(t *testing.T) {
	text := reference(t)
	has := func(what, s string) {
		if !strings.Contains(text, s) {
			t.Errorf("no %s %s in the reference", what, s)
		}
	}
	var walk func(b *eval.Spec)
	walk = func(b *eval.Spec) {
		for _, a := range b.Attrs {
			has("argument", "| `"+a.Name+"` |")
		}
		for _, in := range b.Blocks {
			has("block", "`"+in.Name)
			walk(in)
			for kind, k := range in.Kinds {
				has("block", "### `"+in.Name+" "+strconv.Quote(kind))
				walk(k)
			}
		}
	}
	walk(block.RootSpec)
	for _, k := range kinds.Catalog() {
		_, section, ok := strings.Cut(text, "### `step "+strconv.Quote(k.Name)+"`\n")
		if !ok {
			t.Errorf("no kind %s in the reference", k.Name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n##")
		for name := range block.KindSpecs()[k.Name].Args {
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
	for name := range (&eval.Scope{}).Functions() {
		has("function", "* `"+name+"(")
	}
}

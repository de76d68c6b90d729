package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/rogpeppe/go-internal/txtar"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// TestLanguageHasCases checks that the cases of the corpus, or files that they share,
// use every block and every argument of the language.
func TestLanguageHasCases(t *testing.T) {
	used := map[string]bool{}
	note := func(src []byte) {
		f, _ := hclsyntax.ParseConfig(src, "x", hcl.InitialPos)
		if f == nil {
			return // the case's text is not a plan
		}
		noteBody(used, "", f.Body.(*hclsyntax.Body))
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, name := range files {
		if filepath.Base(filepath.Dir(name)) == "fuzz" {
			continue // a folder of cases that fuzzing found
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, ".txtar") {
			note(src)
			continue
		}
		for _, f := range txtar.Parse(src).Files {
			if strings.HasSuffix(f.Name, source.Suffix) {
				note(f.Data)
			}
		}
	}
	var missing []string
	want := func(path string) {
		if !used[path] {
			missing = append(missing, path)
		}
	}
	wantSpec(want, "", block.RootSpec)
	for name, k := range block.KindSpecs() {
		want("step " + name)
		for _, a := range k.Block.Attrs {
			if !slices.ContainsFunc(block.StepAttrs, func(b eval.Attr) bool { return b.Name == a.Name }) {
				want("step " + name + "." + a.Name)
			}
		}
	}
	slices.Sort(missing)
	for _, m := range missing {
		t.Errorf("no case of the corpus uses %s", m)
	}
}

func wantSpec(want func(string), path string, s *eval.Spec) {
	for _, a := range s.Attrs {
		want(path + "." + a.Name)
	}
	for _, b := range s.Blocks {
		inner := strings.TrimPrefix(path+"/"+b.Name, "/")
		want(inner)
		wantSpec(want, inner, b)
		for kind, k := range b.Kinds {
			want(inner + " " + kind)
			wantSpec(want, inner+" "+kind, k)
		}
	}
}

// noteBody records "block.argument" for each argument in a body. For blocks with kinds it
// also notes the kind.
func noteBody(used map[string]bool, path string, body *hclsyntax.Body) {
	for name := range body.Attributes {
		used[path+"."+name] = true
	}
	for _, b := range body.Blocks {
		inner := strings.TrimPrefix(path+"/"+b.Type, "/")
		used[inner] = true
		noteBody(used, inner, b.Body)
		withKinds := []string{"step", "connection", "join", "runtime", "network", "data"}
		if len(b.Labels) > 0 && slices.Contains(withKinds, b.Type) {
			inner += " " + b.Labels[0]
			used[inner] = true
			noteBody(used, inner, b.Body)
		}
	}
}

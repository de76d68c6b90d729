package plan_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"

	"nodejoin/plan"
)

// maxFuzzTime bounds one input of FuzzLoad. It is far more than any input needs,
// and far less than a hang.
const maxFuzzTime = 20 * time.Second

// FuzzLoad: whatever a file contains, loading and compiling it ends in time and
// without a panic. It returns a plan exactly when there are no errors. Every
// diagnostic has a text and points to a place in the file.
func FuzzLoad(f *testing.F) {
	cases, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range cases {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range ar.Files {
			if strings.HasSuffix(m.Name, plan.Suffix) {
				f.Add(m.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		// Plans that make very many nodes or values are slow by design.
		if len(src) > 16<<10 || tooMuch(string(src)) {
			t.Skip()
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "a"+plan.Suffix)
		if err := os.WriteFile(file, src, 0o600); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		p, list := plan.Load(file, plan.Options{Version: "0.1.0", Agent: testAgent})
		if !list.HasErrors() {
			out, more := p.Compile()
			if (out != nil) == more.HasErrors() {
				t.Errorf("a plan: %v, errors: %v", out != nil, more.HasErrors())
			}
			list = append(list, more...)
		}
		if took := time.Since(begin); took > maxFuzzTime {
			t.Errorf("it took %s", took)
		}
		for _, d := range list {
			checkDiagnostic(t, d, len(src))
		}
	})
}

func checkDiagnostic(t *testing.T, d *hcl.Diagnostic, size int) {
	if d.Summary == "" || d.Detail == "" {
		t.Errorf("a diagnostic has no text: %v", d)
	}
	if !utf8.ValidString(d.Summary + d.Detail) {
		t.Errorf("a diagnostic is not text: %q", d.Detail)
	}
	if r := d.Subject; r != nil && (r.Start.Byte < 0 || r.Start.Byte > size || r.Start.Line < 1 || r.Start.Column < 1) {
		t.Errorf("a diagnostic points outside its file of %d bytes: %v", size, d)
	}
}

// tooMuch reports whether the text may cause a lot of work by design.
func tooMuch(src string) bool {
	return slices.ContainsFunc([]string{"count", "range", "setproduct", "pow", "indent", "format", "chunklist"},
		func(word string) bool {
			return strings.Contains(src, word)
		})
}

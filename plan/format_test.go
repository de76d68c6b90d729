package plan

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func TestFormat(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"spaces and alignment": {"a=1\nlong  =   2\n", "a    = 1\nlong = 2\n"},
		"indentation": {"node \"a\" {\nos=\"windows\"\n  taint {\nkey=\"k\"\n}\n}",
			"node \"a\" {\n  os = \"windows\"\n  taint {\n    key = \"k\"\n  }\n}\n"},
		"CRLF and mark": {"\xef\xbb\xbfa = 1\r\n\r\n", "a = 1\n"},
		"comments stay": {"# x\na=1 // y\n", "# x\na = 1 // y\n"},
		"heredoc stays": {"a = <<EOT\n  x=1\n y\nEOT\n", "a = <<EOT\n  x=1\n y\nEOT\n"},
		"empty":         {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			have, diags := Format("a.join.hcl", []byte(c.src))
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			if d := cmp.Diff(c.want, string(have)); d != "" {
				t.Error(d)
			}
		})
	}
	for _, src := range []string{"node {", "a = \n", "\xff\xfe"} {
		if have, diags := Format("a.join.hcl", []byte(src)); have != nil || !diags.HasErrors() {
			t.Errorf("%q: %q, %v", src, have, diags)
		}
	}
}

// FuzzFormat: formatted text is HCL, and a second format changes nothing.
func FuzzFormat(f *testing.F) {
	f.Add([]byte("node \"a\" {\n os = \"windows\"\n}\n"))
	f.Add([]byte("a = <<-EOT\n  ${x}\nEOT\n"))
	f.Add([]byte("a = [\n1,\n 2 ]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		once, diags := Format("f.join.hcl", src)
		if diags.HasErrors() {
			return
		}
		if _, diags := hclsyntax.ParseConfig(once, "f", hcl.InitialPos); diags.HasErrors() {
			t.Fatalf("%q became %q: %v", src, once, diags)
		}
		if twice, _ := Format("f.join.hcl", once); !bytes.Equal(once, twice) {
			t.Fatalf("%q, then %q, then %q", src, once, twice)
		}
	})
}

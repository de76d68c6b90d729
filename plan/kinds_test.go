package plan

import (
	"slices"
	"strings"
	"testing"
)

// Arguments of kinds and those of every step share one block.
func TestKindsHaveNoArgumentOfSteps(t *testing.T) {
	for _, name := range kindNames() {
		for _, a := range stepAttrs {
			if _, clash := kindSpecs()[name].args[a.Name]; clash {
				t.Errorf("the kind %q has an argument %q, which every step block has", name, a.Name)
			}
		}
	}
}

// The tags of arguments agree with each other: what one needs exists, a default is a word
// that it can be, and only what a step can want absent has arguments of what is present.
func TestArgumentTags(t *testing.T) {
	for name, k := range kindSpecs() {
		for argument, a := range k.args {
			where := name + "." + argument
			if _, ok := k.args[a.with]; a.with != "" && (!ok || a.why == "") {
				t.Errorf("%s has no effect without %q, which does not exist, or does not say why", where, a.with)
			}
			if text, ok := a.fallback.(string); ok && a.choices != nil && !slices.Contains(a.choices, text) {
				t.Errorf("%s is %q by default, which is none of %q", where, text, a.choices)
			}
			if a.os != "" && systemNames[a.os] == "" {
				t.Errorf("%s is for %q, which is no system", where, a.os)
			}
			if a.id && a.present {
				t.Errorf("%s names the thing and describes it", where)
			}
			if _, ok := k.args["sensitive"]; a.secret && !ok {
				t.Errorf("%s takes a secret, and the kind has no argument sensitive", where)
			}
		}
	}
}

func TestBadPath(t *testing.T) {
	for _, c := range []struct {
		os, path string
		ok       bool
	}{
		{"windows", `C:\k`, true}, {"windows", `c:/k/x`, true}, {"windows", `C:\`, true}, {"windows", `C:\k\`, true},
		{"windows", `C:\Program Files\x`, true}, {"windows", `C:\ü\日`, true},
		{"windows", `k`, false}, {"windows", `\k`, false}, {"windows", `C:`, false}, {"windows", `C:k`, false}, {"windows", `1:\k`, false},
		{"windows", `\\?\C:\k`, false}, {"windows", `C:\a\\b`, false}, {"windows", `C:\nul`, false}, {"windows", `C:\LPT1.txt`, false},
		{"windows", `C:\console`, true}, {"windows", `C:\a\.. `, false}, {"windows", "C:\\a\tb", false},
		{"windows", `C:\` + strings.Repeat(`a\`, 200), false}, {"windows", `C:\` + strings.Repeat(`a`, 256), false},
		{"linux", `/etc/x`, true}, {"linux", `/`, true}, {"linux", `/a b`, true}, {"linux", `etc`, false}, {"linux", `~/x`, false},
		{"linux", `/a/../b`, false}, {"linux", "/a\nb", false}, {"linux", `/` + strings.Repeat("a", 256), false},
		{"linux", `/` + strings.Repeat("a/", 2100), false},
	} {
		if why := badPath(c.os, c.path); (why == "") != c.ok {
			t.Errorf("%s %q: %q, want it to be right: %v", c.os, c.path, why, c.ok)
		}
	}
}

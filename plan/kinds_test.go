package plan

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/plan/block"
	"nodejoin/plan/names"
)

// The arguments of a kind and the arguments of every step share one block.
func TestKindsHaveNoArgumentOfSteps(t *testing.T) {
	for _, name := range block.KindNames() {
		for _, a := range block.StepAttrs {
			if _, clash := block.KindSpecs()[name].Args[a.Name]; clash {
				t.Errorf("the kind %q has an argument %q, which every step block has", name, a.Name)
			}
		}
	}
}

// The tags of arguments are consistent: an argument that another needs exists, a default is
// one of the choices, and only kinds that can want a thing absent mark arguments as Present.
func TestArgumentTags(t *testing.T) {
	for name, k := range block.KindSpecs() {
		for argument, a := range k.Args {
			where := name + "." + argument
			if _, ok := k.Args[a.With]; a.With != "" && (!ok || a.Why == "") {
				t.Errorf("%s has no effect without %q, which does not exist or gives no reason", where, a.With)
			}
			if text, ok := a.Fallback.(string); ok && a.Choices != nil && !slices.Contains(a.Choices, text) {
				t.Errorf("%s is %q by default, which is not one of %q", where, text, a.Choices)
			}
			if a.OS != "" && a.OS != "windows" && a.OS != "linux" {
				t.Errorf("%s is for %q, which is not an operating system", where, a.OS)
			}
			if a.ID && a.Present {
				t.Errorf("%s names the thing and describes it", where)
			}
			if _, ok := k.Args["sensitive"]; a.Secret && !ok {
				t.Errorf("%s takes a secret, but the kind has no argument sensitive", where)
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
		{"windows", `k`, false}, {"windows", `\k`, false}, {"windows", `C:`, false}, {"windows", `C:k`, false}, {"windows",
			`1:\k`, false},
		{"windows", `\\?\C:\k`, false}, {"windows", `C:\a\\b`, false}, {"windows", `C:\nul`, false}, {"windows",
			`C:\LPT1.txt`, false},
		{"windows", `C:\console`, true}, {"windows", `C:\a\.. `, false}, {"windows", "C:\\a\tb", false},
		{"windows", `C:\` + strings.Repeat(`a\`, 200), false}, {"windows", `C:\` + strings.Repeat(`a`, 256), false},
		{"linux", `/etc/x`, true}, {"linux", `/`, true}, {"linux", `/a b`, true}, {"linux", `etc`, false}, {"linux", `~/x`,
			false},
		{"linux", `/a/../b`, false}, {"linux", "/a\nb", false}, {"linux", `/` + strings.Repeat("a", 256), false},
		{"linux", `/` + strings.Repeat("a/", 2100), false},
	} {
		if why := names.BadPath(c.os, c.path); (why == "") != c.ok {
			t.Errorf("%s %q: %q, want valid: %v", c.os, c.path, why, c.ok)
		}
	}
}

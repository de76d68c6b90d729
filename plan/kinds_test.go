package plan

import (
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

// What the language knows of arguments beyond their types names arguments that exist.
func TestArgumentTablesAreCurrent(t *testing.T) {
	has := func(kind, argument string) bool {
		k := kindSpecs()[kind]
		if k == nil {
			return false
		}
		_, ok := k.args[argument]
		return ok
	}
	for key := range choices {
		kind, argument, _ := strings.Cut(key, ".")
		if !has(kind, argument) {
			t.Errorf("choices has %q, which does not exist", key)
		}
	}
	for kind, list := range fallbacks {
		for argument := range list {
			if !has(kind, argument) {
				t.Errorf("fallbacks has %s.%s, which does not exist", kind, argument)
			}
		}
	}
	for what, table := range map[string]map[string]bool{"paths": paths, "identity": identity, "pointless": pointless} {
		for argument := range table {
			found := false
			for _, kind := range kindNames() {
				found = found || has(kind, argument)
			}
			if !found {
				t.Errorf("%s has %q, which no kind has", what, argument)
			}
		}
	}
	for kind := range ownKinds {
		if kindSpecs()[kind] == nil {
			t.Errorf("ownKinds has %q, which is no kind", kind)
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

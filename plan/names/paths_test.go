package names

import (
	"strings"
	"testing"
	"unicode"

	"nodejoin/steps/host"
)

func TestBadPathLengths(t *testing.T) {
	long := strings.Repeat("x", 242)
	for _, c := range []struct {
		os, path string
		ok       bool
	}{
		{"windows", `C:\k\a.txt`, true}, {"windows", `c:/k/a.txt`, true}, {"windows", `C:\k\`, true}, {"windows", `C:\`,
			true},
		{"windows", `C:\Käse\日本`, true}, {"windows", `C:\` + strings.Repeat("日", 242), true}, {"windows", `C:\` +
			strings.Repeat("日", 243), false},
		{"windows", `C:\` + long, true}, {"windows", `C:\` + long + "x", false}, {"windows", `C:\` + long + `\` + long,
			false},
		{"windows", `C:\con`, false}, {"windows", `C:\k\NUL.txt`, false}, {"windows", `C:\k\nul .txt`, false}, {"windows",
			`C:\k\CONOUT$`, false},
		{"windows", `C:\console`, true}, {"windows", `C:\k\com10`, true}, {"windows", `C:\k\COM¹`, false},
		{"windows", `C:\\`, false}, {"windows", `C:\k\\`, false}, {"windows", `C:\k\..\x`, false}, {"windows", `C:\k\a.`,
			false}, {"windows", `C:\k\a \b`, false}, {"windows", `C:\k\\b`, false},
		{"windows", `C:k`, false}, {"windows", `\k`, false}, {"windows", `\\host\share`, false}, {"windows", `C:\k\a:b`,
			false},
		{"windows", "C:\\k\\a\x01", false}, {"windows", "C:\\k\xff", false},
		{"linux", "/etc/a", true}, {"linux", "/con", true}, {"linux", "etc", false}, {"linux", "/a/../b", false}, {"linux",
			"/a/.", false}, {"linux", "/a/./b", false}, {"linux", "/a\n", false},
		{"linux", "/" + long, true}, {"linux", "/" + long + "x", false}, {"linux", "/" + strings.Repeat("日", 81), false},
		{"linux", "/a\xff", false},
	} {
		if why := BadPath(c.os, c.path); (why == "") != c.ok {
			t.Errorf("%s %q: %q", c.os, c.path, why)
		}
	}
}

// FuzzPaths: any path is checked without a panic. An accepted path is absolute, is the same
// after it is split and joined again, and leaves room for the temporary name under which it
// is written.
func FuzzPaths(f *testing.F) {
	for _, p := range []string{`C:\k`, `c:/k/`, `C:\`, `\\?\C:\k`, `C:\con.txt`, "/etc/a", "/", "/a/..", "", "C:",
		`C:\k\a:b`, "/a\x00b", "C:\\\xff", `C:\日本`, "/a//b/./c"} {
		f.Add(p, true)
		f.Add(p, false)
	}
	f.Fuzz(func(t *testing.T, p string, windows bool) {
		os := "linux"
		if windows {
			os = "windows"
		}
		why := BadPath(os, p)
		if again := BadPath(os, p); again != why {
			t.Fatalf("%q, then %q", why, again)
		}
		dir, base := host.Dir(os, p), host.Base(os, p)
		if !host.SamePath(os, p, p) {
			t.Fatalf("%q is not itself", p)
		}
		if why != "" {
			return
		}
		if strings.ContainsFunc(p, func(r rune) bool { return r == 0 || windows && unicode.IsControl(r) && r < 0x20 }) {
			t.Fatalf("a control character was accepted: %q", p)
		}
		if root := windows && len(p) == 3 || strings.Trim(p, "/") == ""; root {
			return
		}
		if joined := host.Join(os, dir, base); !host.SamePath(os, joined, p) {
			t.Fatalf("%q splits into %q and %q, which join to %q", p, dir, base, joined)
		}
		if why := BadPath(os, dir); why != "" {
			t.Fatalf("%q was accepted, its folder %q is not: %s", p, dir, why)
		}
		if units(os, host.Base(os, host.TempName(p))) > 255 {
			t.Fatalf("%q cannot be written", p)
		}
		low := strings.ToLower(p) // EqualFold treats some letters as equal that Windows keeps apart
		if windows && host.SamePath(os, p, strings.ToUpper(p)) != (strings.ToLower(strings.ToUpper(p)) == low) {
			t.Fatalf("case matters in %q", p)
		}
	})
}

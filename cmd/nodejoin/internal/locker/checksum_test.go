package locker

import (
	"strings"
	"testing"
)

func TestDigestIn(t *testing.T) {
	a, b, long := strings.Repeat("a1", 32), strings.Repeat("b2", 32), strings.Repeat("c3", 64)
	for _, c := range []struct{ name, text, want, fails string }{
		{"the digest alone", a + "\n", a, ""},
		{"without an end of line, in upper case", strings.ToUpper(a), a, ""},
		{"sha512 alone", long + "\r\n", long, ""},
		{"sha256sum", a + "  f.tgz\n", a, ""},
		{"sha256sum -b", a + " *f.tgz\n", a, ""},
		{"with CR", a + "  f.tgz\r\n", a, ""},
		{"in a folder", a + "  ./release/f.tgz\n", a, ""},
		{"in a folder of Windows", a + `  output\f.tgz`, a, ""},
		{"a list", b + "  f\n" + a + "  f.tgz\n" + b + "  f.tgz.asc\n", a, ""},
		{"a list of sha512", long + "  f.tgz\n", long, ""},
		{"the same twice", a + "  f.tgz\n" + a + "  ./f.tgz\n", a, ""},
		{"a signed list", "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + b + " *g\n" + a +
			" *f.tgz\n-----BEGIN PGP SIGNATURE-----\n\niQIz" + a + "\n-----END PGP SIGNATURE-----\n", a, ""},
		{"two digests", a + "  f.tgz\n" + b + "  f.tgz\n", "", "names two digests for f.tgz"},
		{"another file", a + "  g.tgz\n", "", "none of f.tgz"},
		{"a longer name", a + "  f.tgz.asc\n", "", "none of f.tgz"},
		{"two digests alone", a + "\n" + b + "\n", "", "none of f.tgz"},
		{"cut", a[:63] + "  f.tgz\n", "", "no digest"},
		{"sha1", a[:40] + "  f.tgz\n", "", "no digest"},
		{"a page", "<html>Sign in to the network</html>", "", "no digest"},
		{"nothing", "", "", "no digest"},
	} {
		have, err := digestIn(c.text, "f.tgz")
		if have != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v; want %q, %q", c.name, have, err, c.want, c.fails)
		}
	}
}

package steps

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRedactsLines: a text of any parts becomes what the forms make of it as a whole, although Redact takes it line by
// line, and leaves out most of them.
func TestRedactsLines(t *testing.T) {
	parts := []string{"token", "PassWord", "pa\u017f\u017fwd", "passphrase", "secret", "client-key-data", "access-key",
		"private_\u212aey", "apiKey", "auth", "Bearer ", "basic\t", "abcdef",
		"0123456789abcdef", "eyJhbGciOiJSUzI1", "abcdef.0123456789abcdef",
		"http://", "me:it@", "?sig=", "&x-Signature=", ".", ":", "=", "\"", "'", "\\", " ", "\t", "\n", "\r\n", "x", "_",
		"-", "{", "}", "\u00e9", "\xff"}
	random := rand.New(rand.NewPCG(1, 2))
	changed := 0
	for range 10_000 {
		var b strings.Builder
		for range random.IntN(14) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		text := b.String()
		have, want := Redact(text, nil), redactLine(text)
		if have != want {
			t.Fatalf("%q became %q, want %q", text, have, want)
		}
		if have != text {
			changed++
		}
	}
	if changed < 1_000 {
		t.Errorf("%d of the texts have something to hide", changed)
	}
}

package winrmtest

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"
)

// TestDecode: input is decoded, and refused, as encoding/base64 does.
func TestDecode(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	source := make([]byte, 100)
	for n := range len(source) {
		_, _ = random.Read(source) // it never fails
		text := base64.StdEncoding.AppendEncode(nil, source[:n])
		for at := range len(text) + 1 {
			for _, put := range []string{"", "=", "\n", "\r\n", "-", "\x80", "A"} {
				for _, over := range []int{0, min(1, len(text)-at)} {
					changed := append(append(bytes.Clone(text[:at]), put...), text[at+over:]...)
					want := make([]byte, len(changed))
					have := bytes.Clone(want)
					w, wantErr := base64.StdEncoding.Decode(want, changed)
					h, err := decode(have, changed)
					if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(have[:h], want[:w]) {
						t.Fatalf("%q: %x, %v; want %x, %v", changed, have[:h], err, want[:w], wantErr)
					}
				}
			}
		}
	}
}

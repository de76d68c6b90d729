package wsman

import (
	"encoding/base64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// TestStream: a message that is read in parts of any length is the same as in one, with its input in base64.
func TestStream(t *testing.T) {
	input := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(input) // it never fails
	for n := range len(input) {
		m := message{head: []byte("<head>"), input: input[:n], tail: []byte("</tail>")}
		want := "<head>" + base64.StdEncoding.EncodeToString(input[:n]) + "</tail>"
		if string(m.bytes()) != want || m.size() != len(want) {
			t.Fatalf("%d bytes of input: %d bytes %q, want %d, %q", n, m.size(), m.bytes(), len(want), want)
		}
		for name, r := range map[string]io.Reader{"whole": newStream(m), "halves": iotest.HalfReader(newStream(m)),
			"byte by byte": iotest.OneByteReader(newStream(m)), "sevens": sevens{newStream(m)}} {
			if have, err := io.ReadAll(r); string(have) != want || err != nil {
				t.Fatalf("%d bytes of input, %s: %q, %v, want %q", n, name, have, err, want)
			}
		}
	}
}

// sevens reads at most seven bytes at once, which is no length of base64.
type sevens struct{ io.Reader }

func (s sevens) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), 7)]) }

// TestChunk: a message with as much input as is sent at once is within what the machine takes.
func TestChunk(t *testing.T) {
	long := strings.Repeat("F", 200)
	c := &Command{s: &Shell{c: New(Config{Addr: long + ".example.com:5986"}), id: long}, id: long}
	if n := c.input(make([]byte, Chunk), true).message(c.s.c.url).size(); n > MaxEnvelope || n < MaxEnvelope*99/100 {
		t.Errorf("%d bytes, want nearly %d", n, MaxEnvelope)
	}
}

func BenchmarkEncode(b *testing.B) {
	src, dst := make([]byte, Chunk), make([]byte, MaxEnvelope)
	b.SetBytes(Chunk)
	for b.Loop() {
		encode(dst, src)
	}
}

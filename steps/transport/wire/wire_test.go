package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type sink struct{ bytes.Buffer }

func (*sink) Close() error { return nil }

func TestChannelKeepsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.String()).Draw(t, "messages")
		var s sink
		c := NewChannel(&s, &s)
		for _, m := range want {
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Send(b); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range s.Bytes() {
			if b >= 0x80 {
				t.Fatalf("byte %#x outside ASCII", b)
			}
		}
		for _, m := range want {
			b, err := c.Recv()
			if err != nil {
				t.Fatal(err)
			}
			var have string
			if err := json.Unmarshal(b, &have); err != nil || have != m {
				t.Fatalf("have %q, want %q (%v)", have, m, err)
			}
		}
		if _, err := c.Recv(); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v, want io.EOF", err)
		}
	})
}

func TestChannelLines(t *testing.T) {
	c := NewChannel(strings.NewReader("{\"a\":1}\r\n{\"b\""), nil)
	if b, err := c.Recv(); err != nil || string(b) != `{"a":1}` {
		t.Fatalf("have %q, %v", b, err)
	}
	if _, err := c.Recv(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("cut line: %v, want io.ErrUnexpectedEOF", err)
	}
}

func TestBlobValid(t *testing.T) {
	for digest, want := range map[string]bool{
		strings.Repeat("0a", 32): true, strings.Repeat("0a", 64): true,
		"": false, "../../etc/passwd": false, strings.Repeat("0A", 32): false, strings.Repeat("0", 65): false,
	} {
		if have := (Blob{Digest: digest}).Valid(); have != want {
			t.Errorf("%q: have %t, want %t", digest, have, want)
		}
	}
}

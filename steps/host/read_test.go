package host_test

import (
	"errors"
	"strings"
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

func TestReadTail(t *testing.T) {
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: "linux"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		content string
		most    int64
		want    string
		cut     bool
	}{
		{"", 8, "", false},
		{"one\ntwo\n", 8, "one\ntwo\n", false},
		{"one\ntwo\n", 7, "two\n", true},
		{"one\ntwo", 3, "two", true},
		{"one line", 4, "line", true},
	} {
		if err := h.WriteFile(t.Context(), "/log", strings.NewReader(c.content), host.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		b, cut, err := host.ReadTail(t.Context(), h, "/log", c.most)
		if err != nil || string(b) != c.want || cut != c.cut {
			t.Errorf("the last %d bytes of %q: %q, %v, %v", c.most, c.content, b, cut, err)
		}
	}
	if err := h.Mkdir(t.Context(), "/folder", host.AccessDefault); err != nil {
		t.Fatal(err)
	}
	if _, _, err := host.ReadTail(t.Context(), h, "/folder", 8); !errors.Is(err, host.ErrDirectory) {
		t.Errorf("a folder: %v", err)
	}
}

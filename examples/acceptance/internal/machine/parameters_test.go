package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestParameters: of two machines that change a shared parameter the last one restores it,
// whichever began first, and also what one left that was killed.
func TestParameters(t *testing.T) {
	sys, notes := t.TempDir(), filepath.Join(t.TempDir(), "notes")
	file := filepath.Join(sys, "vm", "overcommit_memory")
	set := func(value string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(value string) {
		t.Helper()
		if have, err := os.ReadFile(file); err != nil || string(have) != value {
			t.Errorf("the parameter is %q, want %q: %v", have, value, err)
		}
	}
	hold := func() *lease {
		t.Helper()
		l, err := holdParameters(sys, notes)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	release := func(l *lease) {
		t.Helper()
		if err := l.release(); err != nil {
			t.Fatal(err)
		}
	}
	set("0")
	first := hold()
	set("1")
	second := hold()
	release(first)
	want("1")
	release(second)
	want("0")
	killed := hold()
	set("1")
	killed.lock.Close()
	release(hold())
	want("0")
	if _, err := os.Stat(notes); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the notes are still there: %v", err)
	}
}

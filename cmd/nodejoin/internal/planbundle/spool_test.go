package planbundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSpool: a second run that writes the same bundle leaves the files of the first alone, and the next run removes
// what a killed one has left.
func TestSpool(t *testing.T) {
	out := filepath.Join(t.TempDir(), "b.tar")
	dir, done, err := Spool(out)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "half")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Spool(out); err == nil || !strings.Contains(err.Error(), "another run writes "+out) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	done()
	if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) > 0 {
		t.Errorf("after the first run: %v, %v", left, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil { // a run was killed
		t.Fatal(err)
	}
	if _, done, err = Spool(out); err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("what a killed run left is still there: %v", err)
	}
}

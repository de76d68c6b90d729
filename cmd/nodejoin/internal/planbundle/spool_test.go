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

// TestTemp: what a run that was killed has left in the folder for temporary files goes; a folder that a run uses
// stays, and so does one of another user.
func TestTemp(t *testing.T) {
	all := t.TempDir()
	t.Setenv("TMPDIR", all)
	t.Setenv("TMP", all) // of Windows
	used, done, err := Temp()
	if err != nil {
		t.Fatal(err)
	}
	left, foreign := filepath.Join(all, temp+"left"), filepath.Join(all, temp+"foreign")
	for _, dir := range []string{left, foreign} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(left, "half"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{used: true, left: false, foreign: os.Chown(foreign, 12345, 12345) == nil}
	second, done2, err := Temp()
	if err != nil {
		t.Fatal(err)
	}
	there[second] = true
	for dir, want := range there {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", dir, err, want)
		}
	}
	done()
	done2()
	for _, dir := range []string{used, second} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

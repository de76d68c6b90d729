package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "x.log")
	w, err := openLog(path, 10, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"one 56789", "two 56789", "three 789", "four 6789"} {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "four 6789", path + ".1": "three 789", path + ".2": "two 56789"} {
		if have, err := os.ReadFile(name); err != nil || string(have) != want {
			t.Errorf("%s: %q %v, want %q", filepath.Base(name), have, err, want)
		}
	}
	if _, err := os.Stat(path + ".3"); !os.IsNotExist(err) {
		t.Errorf("a third old log: %v", err)
	}
}

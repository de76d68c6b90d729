package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "x.log")
	l := testLog(t, path, 10, 2)
	for _, line := range []string{"one 56789\n", "two 56789\n", "three 789\n", "four", " 678", "9\nx"} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"x.log": "x", "x.log.1": "four 6789\n", "x.log.2": "three 789\n"}
	if diff := cmp.Diff(want, readFiles(t, filepath.Dir(path))); diff != "" {
		t.Error(diff)
	}
}

func TestLogKeepsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	l := testLog(t, path, 4, 0)
	l.Write([]byte("old\nnew\n"))
	l.Close()
	if diff := cmp.Diff(map[string]string{"x.log": "new\n"}, readFiles(t, filepath.Dir(path))); diff != "" {
		t.Error(diff)
	}
}

// TestLogLosesNothing: the files hold all that was written, oldest first, and no file
// is larger than its limit.
func TestLogLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "supervise-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "x.log")
		max := rapid.Int64Range(1, 20).Draw(t, "max")
		var want strings.Builder
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			l, err := openLog(path, max, 250, "x")
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range rapid.SliceOfN(rapid.StringMatching(`[ab\n]{0,12}`), 0, 6).Draw(t, "writes") {
				want.WriteString(p)
				l.Write([]byte(p))
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var have strings.Builder
		for i := 250; i >= 0; i-- {
			b, err := os.ReadFile((&log{path: path}).numbered(i))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if int64(len(b)) > max {
				t.Fatalf("file %d has %d bytes, limit %d", i, len(b), max)
			}
			have.Write(b)
		}
		if have.String() != want.String() {
			t.Fatalf("have %q, want %q", have.String(), want.String())
		}
	})
}

func TestLogCannotRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.log")
	// A folder that is not empty cannot be replaced by a file.
	if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := testLog(t, path, 8, 1)
	l.Write([]byte("one\ntwo\nthree\n"))
	if err := os.RemoveAll(path + ".1"); err != nil {
		t.Fatal(err)
	}
	l.Write([]byte(strings.Repeat("four\n", 100)))
	l.Close()
	b, err := os.ReadFile(path + ".1")
	if err != nil || len(b) > 8 {
		t.Errorf("it no longer rotates: %q %v", b, err)
	}
}

func TestLogTellsLoss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	l := testLog(t, path, 1000, 1)
	l.file.Close() // every write fails from here
	l.Write([]byte("gone\n"))
	if err := l.reopen(); err != nil {
		t.Fatal(err)
	}
	l.Write([]byte("half a line"))
	l.Say("own %s", "words")
	l.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^half a line\n` +
		`\S+Z \[supervise x\] 5 bytes of output were lost: .*\n\S+Z \[supervise x\] own words\n$`)
	if !want.Match(b) {
		t.Errorf("have %q", b)
	}
}

func TestLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	code := Logged("test", path, 1<<20, 1, func(log io.Writer) int {
		fmt.Fprintln(log, "line")
		return 7
	})
	if b, err := os.ReadFile(path); err != nil || code != 7 || string(b) != "line\n" {
		t.Errorf("code %d, the log has %q, %v", code, b, err)
	}
	code = Logged("test", filepath.Dir(path), 1<<20, 1, func(io.Writer) int {
		t.Error("it works without its log")
		return 0
	})
	if code != exitFailed {
		t.Errorf("a folder as log: code %d", code)
	}
}

func testLog(t *testing.T, path string, max int64, keep int) *log {
	t.Helper()
	l, err := openLog(path, max, keep, "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

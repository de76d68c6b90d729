//go:build unix

package atomicfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWrite: a file gets its new content or keeps the old one, also through a link.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o644), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if b, _ := os.ReadFile(file); string(b) != "new" || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v", b, info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if err := Write(dir, nil, 0o600); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestCreate: a file is made whole, with what the umask leaves of its mode, and nothing is overwritten. What a run
// that was killed has left goes.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(filepath.Join(dir, unfinished+"X"), []byte("ne"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0o027)
	err := Create(file, []byte("new"))
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(file, []byte("other")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	second, err := os.Create(filepath.Join(dir, "second"))
	if err != nil {
		t.Fatal(err)
	}
	if err := link(second, file); !errors.Is(err, fs.ErrExist) { // as where the file system cannot rename so
		t.Errorf("over a file, by a link: %v", err)
	}
	if err := link(second, filepath.Join(dir, "third")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(file)
	if b, _ := os.ReadFile(file); string(b) != "new" || err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%q, %v, %v", b, info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestKilled: a program that is killed while it writes leaves the old or the new content, whole. What it leaves
// beside that is removed by the next write, which succeeds.
func TestKilled(t *testing.T) {
	const length = 4 << 20
	if name := os.Getenv("WRITE_UNTIL_KILLED"); name != "" {
		for i := 0; ; i++ {
			fmt.Println("writing")
			if err := Write(name, bytes.Repeat([]byte{'a' + byte(i%2)}, length), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := Write(file, bytes.Repeat([]byte("a"), length), 0o600); err != nil {
		t.Fatal(err)
	}
	left := 0
	for i := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "WRITE_UNTIL_KILLED="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + i%3 { // in the first write, and in later ones
			lines.Scan()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		b, err := os.ReadFile(file)
		if err != nil || len(b) != length || strings.Trim(string(b), string(b[:1])) != "" {
			t.Fatalf("after a kill: %d bytes, %v", len(b), err)
		}
		list, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
		if err != nil {
			t.Fatal(err)
		}
		left += len(list)
	}
	t.Logf("%d kills left a file", left)
	if err := Write(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if b, _ := os.ReadFile(file); string(b) != "new" || err != nil || len(list) != 1 {
		t.Errorf("%q, %v, %v", b, list, err)
	}
}

// TestAtOnce: runs that write into the same folder, or make files there, at the same time do not take each other's
// files for ones that were left. A write whose unfinished file is gone is tried again; any other failure is final.
func TestAtOnce(t *testing.T) {
	for name, write := range map[string]func(run, n int, dir string) error{
		"4 files": func(run, n int, dir string) error {
			return Write(filepath.Join(dir, fmt.Sprint(run%4)), []byte(fmt.Sprint(n)), 0o600)
		},
		"400 files": func(run, n int, dir string) error {
			return Create(filepath.Join(dir, fmt.Sprint(run, "-", n)), []byte("x"))
		},
	} {
		dir := t.TempDir()
		errs := make(chan error)
		for i := range 8 {
			go func() {
				var err error
				for n := range 50 {
					err = errors.Join(err, write(i, n, dir))
				}
				errs <- err
			}()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if list, err := os.ReadDir(dir); err != nil || fmt.Sprint(len(list), " files") != name {
			t.Errorf("%d, %v; want %s", len(list), err, name)
		}
	}
	gone := &fs.PathError{Op: "rename", Path: unfinished, Err: syscall.ENOENT}
	for name, c := range map[string]struct {
		answers []error // of the tries; the last one also of those behind it
		calls   int
		want    error
	}{
		"good":        {[]error{nil}, 1, nil},
		"swept once":  {[]error{gone, nil}, 2, nil},
		"always gone": {[]error{gone}, tries, gone},
		"full":        {[]error{syscall.ENOSPC}, 1, syscall.ENOSPC},
		"then full":   {[]error{gone, syscall.ENOSPC}, 2, syscall.ENOSPC},
	} {
		calls := 0
		err := again(func() error {
			calls++
			return c.answers[min(calls, len(c.answers))-1]
		})
		if !errors.Is(err, c.want) || calls != c.calls {
			t.Errorf("%s: %v after %d tries, want %v after %d", name, err, calls, c.want, c.calls)
		}
	}
}

// TestStream: Write writes into a pipe, which stays a pipe, also through a link whose target is no path, like that of
// /dev/stdout. A pipe without a reader is an error.
func TestStream(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(pipe, []byte("x"), 0o600); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("without a reader: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "stdout")
	if err := os.Symlink(fmt.Sprintf("/dev/fd/%d", w.Fd()), link); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Write(link, []byte("text"), 0o600), w.Close()); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{pipe, link} {
		if info, err := os.Lstat(name); err != nil || info.Mode().IsRegular() {
			t.Errorf("%s is a file now: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat("/dev/full"); err != nil || t.Failed() {
		return // only Linux has it, and the test must not replace it
	}
	full := filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	if err := Write(full, []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

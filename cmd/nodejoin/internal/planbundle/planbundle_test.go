package planbundle

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nodejoin/steps"
)

// contents is a bundle of a plan and two artifacts. opened counts how often their bytes are asked for.
func contents(opened *int) *Contents {
	c := &Contents{Config: Config{Version: "1", Platform: "linux/amd64", Plan: "plan"}}
	c.add(planFile, "plan/a.join.hcl", text("a.join.hcl", []byte("# a plan\n")), nil)
	for _, name := range []string{"one", "two"} {
		f := text(name, bytes.Repeat([]byte(name), 400_000))
		open := f.Open
		f.Open = func() (io.ReadCloser, error) { *opened++; return open() }
		c.add(artifact, name, f, nil)
	}
	return c
}

func write(t *testing.T, path string, split int64, c *Contents) string {
	t.Helper()
	sum, err := (&Writer{Split: split}).Write(t.Context(), path, c)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestResume: a run that ended anywhere is continued by the next, which gives the same bytes; what is complete is not
// read again. What another bundle has left in its place does not stay.
func TestResume(t *testing.T) {
	opened := 0
	whole := filepath.Join(t.TempDir(), "whole.tar")
	sum := write(t, whole, 0, contents(&opened))
	want, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range []int64{0, least} {
		for cut, reads := range map[int]int{1: 2, 700: 2, len(want) / 2: 2, len(want) - 600: 0, len(want): 0} {
			path := filepath.Join(t.TempDir(), "b.tar")
			leave(t, path, split, want[:cut])
			opened = 0
			if have := write(t, path, split, contents(&opened)); have != sum {
				t.Errorf("split %d, cut at %d: the digest is %s, want %s", split, cut, have, sum)
			}
			if reads == 0 && opened > 0 || opened > reads {
				t.Errorf("split %d, cut at %d: %d artifacts were read again, want %d", split, cut, opened, reads)
			}
			if have := joined(t, path); !bytes.Equal(have, want) {
				t.Errorf("split %d, cut at %d: %d other bytes", split, cut, len(have))
			}
		}
	}
	path := filepath.Join(t.TempDir(), "b.tar")
	leave(t, path, 0, append(bytes.Repeat([]byte{1}, 3000), want...))
	write(t, path, 0, contents(&opened))
	if have := joined(t, path); !bytes.Equal(have, want) {
		t.Error("bytes of another bundle stay")
	}
}

// leave leaves what an interrupted run has written.
func leave(t *testing.T, path string, split int64, b []byte) {
	t.Helper()
	o := &output{path: path, split: split}
	if _, err := o.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// joined is what a bundle has, all parts. Nothing else is beside it.
func joined(t *testing.T, path string) (out []byte) {
	t.Helper()
	in, err := openInput(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err = io.ReadAll(in)
	entries, other := os.ReadDir(filepath.Dir(path))
	if err != nil || other != nil || len(entries) != len(in.files) {
		t.Errorf("%v, %v, %v", entries, err, other)
	}
	return out
}

// TestDamaged: whichever byte was changed, and wherever a bundle ends, it is not opened, and the reason is one of the
// bundle.
func TestDamaged(t *testing.T) {
	opened := 0
	dir := t.TempDir()
	path := filepath.Join(dir, "b.tar")
	write(t, path, 0, contents(&opened))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Check(t.Context(), path, t.TempDir())
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, n := range []int{0, 100, 512, 2000, len(good) / 2, len(good) - 1024, len(good) - 512, len(good) - 1} {
		try("cut", good[:n])
	}
	for _, n := range []int{3, 520, 1100, 1600, 1700, 3000, len(good) / 2, len(good) - 5000} {
		b := bytes.Clone(good)
		b[n] ^= 1
		try("changed", b)
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), path, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestNames: no bundle writes outside the folder that it is unpacked into.
func TestNames(t *testing.T) {
	for _, name := range []string{"../x", "/x", "a/../../x", `a\..\..\x`, "C:x", ""} {
		c := &Contents{Config: Config{Plan: "plan"}}
		c.add(planFile, name, text("x", []byte("x")), nil)
		path := filepath.Join(t.TempDir(), "b.tar")
		write(t, path, 0, c)
		_, err := Open(t.Context(), path, t.TempDir(), nil)
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestUnpackedTwice: an interrupted run is finished by the next.
func TestUnpackedTwice(t *testing.T) {
	opened := 0
	path, cache := filepath.Join(t.TempDir(), "b.tar"), t.TempDir()
	write(t, path, 0, contents(&opened))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Open(ctx, path, cache, nil); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("cancelled: %v", err)
	}
	for range 2 {
		o, err := Open(t.Context(), path, cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(o.PlanPath(), "a.join.hcl"))
		if err != nil || string(b) != "# a plan\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestProblem: a full disk and bytes that are not what is locked have a summary of their own.
func TestProblem(t *testing.T) {
	for want, err := range map[string]error{
		"no room for the bundle":         &os.PathError{Op: "write", Path: "b.tar.part", Err: syscall.ENOSPC},
		"the bundle cannot be completed": &FileError{"flanneld", errors.New("connection refused")},
		"the bundle is damaged":          &DamagedError{"b.tar", "it is cut"},
	} {
		if p, ok := Problem(err); !ok || p.Summary != want || p.Remedy == "" {
			t.Errorf("%v: %+v", err, p)
		}
	}
	c := &Contents{Config: Config{Plan: "plan"}}
	f := text("flanneld", []byte("right"))
	f.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("wrong")), nil }
	c.add(artifact, "flanneld", f, nil)
	path := filepath.Join(t.TempDir(), "b.tar")
	_, err := (&Writer{}).Write(t.Context(), path, c)
	if p, ok := Problem(err); !ok || p.Summary != "wrong digest" || !strings.Contains(p.Detail, "flanneld") {
		t.Errorf("%v: %+v", err, p)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a bundle with a wrong artifact was written")
	}
}

// TestFits: a bundle of another version names the nodejoin in it, as a command that takes it out.
func TestFits(t *testing.T) {
	c := &Contents{Config: Config{Version: "1.2.3", Platform: "linux/amd64", Plan: "plan"}}
	c.add(program, "nodejoin", text("nodejoin", []byte("a program")), nil)
	path := filepath.Join(t.TempDir(), "b.tar")
	write(t, path, 0, c)
	o, err := Open(t.Context(), path, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Fits("1.2.3"); err != nil {
		t.Error(err)
	}
	err = o.Fits("1.3.0")
	if err == nil {
		t.Fatal("another version fits")
	}
	_, command, _ := strings.Cut(err.Error(), "): ")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = filepath.Dir(path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if b, err := os.ReadFile(filepath.Join(cmd.Dir, "nodejoin")); err != nil || string(b) != "a program" {
		t.Errorf("%s: %q, %v", command, b, err)
	}
}

// TestUnpackedAtOnce: of runs that open a bundle at the same time one unpacks it, and all have it.
func TestUnpackedAtOnce(t *testing.T) {
	opened, path, cache := 0, filepath.Join(t.TempDir(), "b.tar"), t.TempDir()
	write(t, path, 0, contents(&opened))
	errs, unpacked := make(chan error), make(chan string, 20)
	for range 8 {
		go func() {
			o, err := Open(t.Context(), path, cache, func(s string) {
				if strings.HasPrefix(s, "Unpacking ") {
					unpacked <- s
				}
			})
			if err == nil && len(o.files) == 0 {
				err = errors.New("it has no files")
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if len(unpacked) != 1 {
		t.Errorf("it was unpacked %d times", len(unpacked))
	}
}

// TestSelf: the nodejoin of nodes that follow a plan is that of the bundle, whatever applies it. Nodes of another
// platform and sandboxes have another.
func TestSelf(t *testing.T) {
	opened := 0
	c := contents(&opened)
	c.add(program, "nodejoin", text("nodejoin", []byte("the program")), nil)
	path := filepath.Join(t.TempDir(), "b.tar")
	write(t, path, 0, c)
	o, err := Open(t.Context(), path, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := errors.New("for another")
	self := o.Self(func(string, string, string) (steps.Source, error) { return steps.Source{}, other })
	src, err := self("linux", "amd64", "ssh")
	if b, failed := os.ReadFile(src.File); err != nil || failed != nil || string(b) != "the program" ||
		src.SHA256 != text("", b).SHA256 {
		t.Errorf("%+v, %v, %v", src, err, failed)
	}
	for _, of := range [][3]string{{"windows", "amd64", "ssh"}, {"linux", "arm64", "ssh"},
		{"linux", "amd64", "sandbox"}} {
		if _, err := self(of[0], of[1], of[2]); !errors.Is(err, other) {
			t.Errorf("%v: %v", of, err)
		}
	}
}

package agentbin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tgz is what a release carries of an agent.
func tgz(t *testing.T, agent string) Packed {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: PackedName, Mode: 0o700, Size: int64(len(agent))})
	_, werr := w.Write([]byte(agent))
	if err := errors.Join(err, werr, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(agent))
	return Packed{TGZ: out.Bytes(), Digest: hex.EncodeToString(sum[:])}
}

// carried is the path of an agent that a program carries.
func carried(dir string, p Packed) string {
	path := filepath.Join(dir, fileName("linux", "amd64", p.Digest))
	carry(path, func() (Packed, error) { return p, nil })
	return path
}

// TestUnpackWhenNeeded: an agent of a release is written and unpacked for what needs it, and not before. A damaged
// file is replaced, and a damaged release refused.
func TestUnpackWhenNeeded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agents")
	p := tgz(t, "the agent")
	path := carried(dir, p)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want no agent before it is needed", err)
	}
	if err := Keep(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want a packed agent only", err)
	}
	if n, err := Size(path); err != nil || n != int64(len("the agent")) {
		t.Errorf("a packed agent of %d bytes, %v", n, err)
	}
	for _, damage := range []string{path, path, path + PackedSuffix} {
		path = carried(dir, p) // as the next run does
		if err := Unpack(path, p.Digest); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "the agent" {
			t.Fatalf("%q, %v", b, err)
		}
		if b, err := os.ReadFile(path + PackedSuffix); err != nil || !bytes.Equal(b, p.TGZ) {
			t.Fatalf("the packed one is another: %v", err)
		}
		if err := os.WriteFile(damage, []byte(strings.Repeat("x", len(p.TGZ))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	other := tgz(t, "another agent")
	other.Digest = p.Digest
	path = carried(t.TempDir(), other)
	if err := Unpack(path, p.Digest); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v, want that it is damaged", err)
	}
	// An agent alone is what it is.
	alone := filepath.Join(t.TempDir(), "agent")
	if err := Unpack(alone, p.Digest); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(alone, []byte("alone"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := Size(alone); err != nil || n != int64(len("alone")) {
		t.Errorf("an agent of %d bytes, %v", n, err)
	}
}

// TestUnpackOnce: of many hosts that need an agent at once, the first unpacks it, and the others do not touch it.
func TestUnpackOnce(t *testing.T) {
	p := tgz(t, "the agent")
	path := carried(t.TempDir(), p)
	var all sync.WaitGroup
	found := make([]os.FileInfo, 8)
	for i := range found {
		all.Go(func() {
			if err := Unpack(path, p.Digest); err != nil {
				t.Error(err)
			}
			found[i], _ = os.Stat(path) // checked below
		})
	}
	all.Wait()
	for _, fi := range found {
		if fi == nil || !os.SameFile(fi, found[0]) {
			t.Fatalf("%v is another file than %v", fi, found[0])
		}
	}
}

// TestFirstRunsAtOnce: processes that write the same agent at once all find it in the end. One that was killed while
// it wrote leaves nothing once the next has written.
func TestFirstRunsAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agents")
	p := tgz(t, strings.Repeat("the agent ", 100_000))
	path := filepath.Join(dir, fileName("linux", "amd64", p.Digest))
	left := filepath.Join(dir, "new-123")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(left, []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			// As another process does: what this one knows of the cache is not used.
			if err := errors.Join(keepPacked(path, p), unpack(path, p.Digest)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var names []string
	list, err := os.ReadDir(dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	if want := []string{writeLock, filepath.Base(path), filepath.Base(path) + PackedSuffix}; err != nil ||
		!slices.Equal(names, want) {
		t.Errorf("%v, %v are in the cache, want %v", names, err, want)
	}
}

// TestReplacedWhileOpen: Windows replaces no file that another process has open. One that is good stays; another one
// is replaced once it is closed.
func TestReplacedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	p := tgz(t, "the agent")
	if err := keepPacked(path, p); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path + PackedSuffix)
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	there := func() bool { // it was written between the two looks, by a process that has no lock
		looks++
		return looks > 1
	}
	if err := put(path+PackedSuffix, there, bytes.NewReader(p.TGZ)); err != nil {
		t.Errorf("a good file that is open: %v", err)
	}
	closed := time.AfterFunc(100*time.Millisecond, func() { _ = open.Close() })
	defer closed.Stop()
	other := tgz(t, "another agent")
	if err := keepPacked(path, other); err != nil {
		t.Errorf("another file that is open for a moment: %v", err)
	}
	if b, err := os.ReadFile(path + PackedSuffix); err != nil || !bytes.Equal(b, other.TGZ) {
		t.Errorf("it has %d bytes, %v", len(b), err)
	}
}

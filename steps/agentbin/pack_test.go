package agentbin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
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
	return Packed{Form: TGZ, Data: out.Bytes(), Digest: hex.EncodeToString(sum[:])}
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
	if n, err := Size(path, p.Digest); err != nil || n != int64(len("the agent")) {
		t.Errorf("a packed agent of %d bytes, %v", n, err)
	}
	for _, damage := range []string{path, path, path + p.Form} {
		path = carried(dir, p) // as the next run does
		if err := Unpack(path, p.Digest); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "the agent" {
			t.Fatalf("%q, %v", b, err)
		}
		if b, err := os.ReadFile(path + p.Form); err != nil || !bytes.Equal(b, p.Data) {
			t.Fatalf("the packed one is another: %v", err)
		}
		if err := os.WriteFile(damage, []byte(strings.Repeat("x", len(p.Data))), 0o700); err != nil {
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
	if n, err := Size(alone, p.Digest); err != nil || n != int64(len("alone")) {
		t.Errorf("an agent of %d bytes, %v", n, err)
	}
}

// zst is an agent of a release for Linux: "the agent", packed by the program of the format's authors (zstd 1.5.4).
func zst(t *testing.T) Packed {
	t.Helper()
	data, err := hex.DecodeString("28b52ffd2409490000746865206167656e7409fa15b0")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("the agent"))
	return Packed{Form: Zstd, Data: data, Digest: hex.EncodeToString(sum[:])}
}

// TestOffer: an agent that is carried as Zstd is packed as TGZ where a machine needs that, once, and again where the
// file is damaged. One that is not packed as Zstd stays as it is.
func TestOffer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agents")
	p := zst(t)
	path := carried(dir, p)
	if err := Offer(path, p.Digest, Zstd); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path + Zstd); err != nil || !bytes.Equal(b, p.Data) {
		t.Errorf("%x, %v", b, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v: want the packed agent and the lock", list, err)
	}
	var made []byte
	for _, damage := range []bool{false, true} {
		path = carried(dir, p) // as the next run does
		if damage {
			if err := os.WriteFile(path+TGZ, made[:len(made)-9], 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := Offer(path, p.Digest, TGZ); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path + TGZ)
		if err != nil || made != nil && !bytes.Equal(b, made) {
			t.Fatalf("it has %d bytes, then %d, %v", len(made), len(b), err)
		}
		made = b
	}
	if n, err := Size(path, p.Digest); err != nil || n != int64(len("the agent")) {
		t.Errorf("a packed agent of %d bytes, %v", n, err)
	}
	var agent []byte
	err := Packed{Form: TGZ, Data: made, Digest: p.Digest}.unpack(func(r io.Reader) (err error) {
		agent, err = io.ReadAll(r)
		return err
	})
	if err != nil || string(agent) != "the agent" {
		t.Errorf("%q, %v", agent, err)
	}
	first, err := os.Stat(path + TGZ)
	if err != nil {
		t.Fatal(err)
	}
	if err := Offer(path, p.Digest, TGZ); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(path + TGZ); err != nil || !os.SameFile(first, again) {
		t.Errorf("a whole one was written again: %v", err)
	}
	other := p
	other.Digest = strings.Repeat("0", 64)
	if err := Offer(carried(t.TempDir(), other), other.Digest, TGZ); err == nil ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v, want that it is damaged", err)
	}
	cut := p
	cut.Data = p.Data[:len(p.Data)-1]
	path = carried(t.TempDir(), cut)
	if err := Offer(path, cut.Digest, TGZ); err == nil {
		t.Error("a cut one was taken")
	}
	// One that is there unpacked is enough.
	if err := os.WriteFile(path, []byte("the agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := Size(path, p.Digest); err != nil || n != int64(len("the agent")) {
		t.Errorf("an unpacked agent of %d bytes, %v", n, err)
	}
	// So is another form.
	if err := errors.Join(os.WriteFile(path+TGZ, made, 0o700), os.WriteFile(path, []byte("damaged"), 0o700),
		Unpack(path, p.Digest)); err != nil {
		t.Error(err)
	}
	as := tgz(t, "the agent")
	path = carried(t.TempDir(), as)
	if err := Offer(path, as.Digest, TGZ); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path + TGZ); err != nil || !bytes.Equal(b, as.Data) {
		t.Errorf("%d bytes, %v", len(b), err)
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
	if want := []string{writeLock, filepath.Base(path), filepath.Base(path) + p.Form}; err != nil ||
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
	open, err := os.Open(path + p.Form)
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	there := func() bool { // it was written between the two looks, by a process that has no lock
		looks++
		return looks > 1
	}
	if err := put(path+p.Form, there, bytes.NewReader(p.Data)); err != nil {
		t.Errorf("a good file that is open: %v", err)
	}
	closed := time.AfterFunc(100*time.Millisecond, func() { _ = open.Close() })
	defer closed.Stop()
	other := tgz(t, "another agent")
	if err := keepPacked(path, other); err != nil {
		t.Errorf("another file that is open for a moment: %v", err)
	}
	if b, err := os.ReadFile(path + p.Form); err != nil || !bytes.Equal(b, other.Data) {
		t.Errorf("it has %d bytes, %v", len(b), err)
	}
}

package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/artifact"
)

// upstream serves one file and counts the bytes that it sends.
type upstream struct {
	*httptest.Server
	text  []byte
	sent  atomic.Int64
	asked chan string // Range of each request
}

func newUpstream(t *testing.T, text []byte) *upstream {
	u := &upstream{text: text, asked: make(chan string, 100)}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.asked <- r.Header.Get("Range")
		http.ServeContent(&counting{w, &u.sent}, r, "", time.Time{}, bytes.NewReader(u.text))
	}))
	t.Cleanup(u.Close)
	return u
}

type counting struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func (u *upstream) item() Item {
	sum := sha256.Sum256(u.text)
	return Item{"flanneld", "linux/amd64", "flanneld-amd64", int64(len(u.text)), hex.EncodeToString(sum[:]),
		steps.Source{URL: u.URL}}
}

func folder(t *testing.T) *Folder {
	return &Folder{Path: filepath.Join(t.TempDir(), "m"), Parallel: 2,
		Report: &Report{Fetched: func(Item) {}, Progress: func(int64) {}},
		OpenAt: artifact.New(artifact.Options{Direct: true}).OpenAt}
}

// TestResume: a part that an earlier run has downloaded is not downloaded again.
func TestResume(t *testing.T) {
	u := newUpstream(t, bytes.Repeat([]byte("artifact "), 100_000))
	f, it := folder(t), u.item()
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	const had = 700_000
	if err := os.WriteFile(f.at(it)+part, u.text[:had], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Fill(t.Context(), []Item{it}); err != nil {
		t.Fatal(err)
	}
	if state, err := f.Check(t.Context(), it); state != There || err != nil {
		t.Errorf("state %d, %v", state, err)
	}
	if have, want := u.sent.Load(), it.Size-had; have != want || <-u.asked != "bytes=700000-" {
		t.Errorf("%d bytes were sent, want %d", have, want)
	}
	// The file is complete, so there is no request.
	if err := f.Fill(t.Context(), []Item{it}); err != nil || u.sent.Load() != it.Size-had {
		t.Errorf("%v, %d bytes", err, u.sent.Load())
	}
}

// TestInterrupted: the bytes that have arrived stay for the next run, wherever the run ended.
func TestInterrupted(t *testing.T) {
	u := newUpstream(t, bytes.Repeat([]byte("artifact "), 20_000))
	f, it := folder(t), u.item()
	for _, n := range []int64{1, 50_000, 100_000} {
		ctx, cancel := context.WithCancel(t.Context())
		open := f.OpenAt
		f.OpenAt = func(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error) {
			r, err := open(ctx, src, off, size)
			return &cut{r, n, cancel}, err
		}
		if err := f.Fill(ctx, []Item{it}); err == nil {
			t.Fatal("no error")
		}
		f.OpenAt = open
		if fi, err := os.Stat(f.at(it) + part); err != nil || fi.Size() == 0 {
			t.Fatal(err)
		}
		if state, _ := f.Check(t.Context(), it); state != Missing {
			t.Fatalf("state %d", state)
		}
	}
	if err := f.Fill(t.Context(), []Item{it}); err != nil {
		t.Fatal(err)
	}
}

// cut ends a run after some bytes.
type cut struct {
	io.ReadCloser
	left   int64
	cancel func()
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.cancel()
		return 0, context.Canceled
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// TestLies: bytes that do not match the lock never get the name of an artifact, and the next run cannot continue from
// them.
func TestLies(t *testing.T) {
	u := newUpstream(t, []byte("the artifact that is locked"))
	it := u.item()
	for name, text := range map[string]string{
		"other bytes": "the artifact that is l0cked", "longer": "the artifact that is locked, and more",
		"shorter": "the artifact", "empty": "",
	} {
		f := folder(t)
		u.text = []byte(text)
		err := f.Fill(t.Context(), []Item{it})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if entries, err := os.ReadDir(f.Path); err != nil || name == "other bytes" && len(entries) > 0 {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
		if _, err := os.Stat(f.at(it)); err == nil {
			t.Errorf("%s: it is in the mirror", name)
		}
	}
}

// TestRoom: the error of a full disk names the artifact.
func TestRoom(t *testing.T) {
	u := newUpstream(t, []byte("x"))
	f := folder(t)
	f.OpenAt = func(context.Context, steps.Source, int64, int64) (io.ReadCloser, error) {
		return nil, &os.PathError{Op: "write", Path: "m", Err: syscall.ENOSPC}
	}
	err := f.Fill(t.Context(), []Item{u.item()})
	var of *Error
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &of) || of.Item.Name != "flanneld" {
		t.Error(err)
	}
}

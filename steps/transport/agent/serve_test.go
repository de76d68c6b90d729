package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// blobHost is a machine that has only its files' names.
type blobHost struct {
	host.Host
	files map[string]int64
	free  uint64
}

func (h *blobHost) Stat(_ context.Context, path string) (host.FileInfo, error) {
	size, ok := h.files[path]
	if !ok {
		return host.FileInfo{}, &host.Error{Op: "stat", Subject: path, Err: fs.ErrNotExist}
	}
	return host.FileInfo{Name: filepath.Base(path), Size: size}, nil
}

func (h *blobHost) Mkdir(context.Context, string, host.Access) error  { return nil }
func (h *blobHost) FreeBytes(context.Context, string) (uint64, error) { return h.free, nil }
func (h *blobHost) Remove(_ context.Context, path string) error       { delete(h.files, path); return nil }
func (h *blobHost) Rename(_ context.Context, from, to string) error {
	h.files[to] = h.files[from]
	delete(h.files, from)
	return nil
}
func (h *blobHost) Open(_ context.Context, path string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(strings.Repeat("x", int(h.files[path])))), nil
}

func (h *blobHost) WriteFile(_ context.Context, path string, r io.Reader, _ host.WriteOptions) error {
	b, err := io.ReadAll(r)
	h.files[path] = int64(len(b))
	return err
}

func (h *blobHost) List(context.Context, string) (l []host.FileInfo, _ error) {
	for p, n := range h.files {
		l = append(l, host.FileInfo{Name: filepath.Base(p), Size: n})
	}
	return l, nil
}

func (h *blobHost) names() []string {
	var out []string
	for p := range h.files {
		out = append(out, filepath.Base(p))
	}
	slices.Sort(out)
	return out
}

func digest(c string) string { return strings.Repeat(c, 64) }

func TestBlobs(t *testing.T) {
	h := &blobHost{files: map[string]int64{}, free: 100}
	b := &blobs{host: h, os: "linux", dir: "/d/blobs"}
	blob := wire.Blob{Algorithm: "sha256", Digest: digest("a"), Size: 10}
	ctx := t.Context()

	state, err := b.begin(ctx, blob)
	if err != nil || state.Have || state.Temp != "/d/blobs/"+digest("a")+".part" {
		t.Fatalf("%+v, %v", state, err)
	}
	h.files[state.Temp] = 9
	if _, err := b.finish(ctx, blob); err == nil {
		t.Error("a short file is accepted as the artifact")
	}
	h.files[state.Temp] = 10
	if _, err := b.finish(ctx, blob); err != nil {
		t.Fatal(err)
	}
	if state, err = b.begin(ctx, blob); err != nil || !state.Have {
		t.Fatalf("%+v, %v, want it there", state, err)
	}
	if _, err := b.begin(ctx, wire.Blob{Digest: digest("b"), Size: 101}); !errors.Is(err, host.ErrNoSpace) {
		t.Errorf("%v, want ErrNoSpace", err)
	}
	for _, name := range []string{"", "../../x", strings.ToUpper(digest("a"))} {
		if _, err := b.begin(ctx, wire.Blob{Digest: name}); !errors.Is(err, errBlobName) {
			t.Errorf("begin %q: %v", name, err)
		}
		if _, err := b.finish(ctx, wire.Blob{Digest: name}); !errors.Is(err, errBlobName) {
			t.Errorf("finish %q: %v", name, err)
		}
	}

	for _, c := range []string{"b", "c", "d"} {
		h.files["/d/blobs/"+digest(c)] = 1
	}
	spec := func(id, c string) steps.Spec {
		return steps.Spec{ID: id, Args: steps.MustArgs(steps.Source{File: "/m/" + c, SHA256: digest(c)})}
	}
	req := executor.Request{Steps: []steps.Spec{spec("s1", "a"), spec("s2", "b"), spec("s3", "c"), spec("s4", "d"),
		{ID: "s5", Args: steps.RawArgs([]byte(`{}`))}}}
	b.used(ctx, req, executor.ApplyReply{Changed: []string{"s1"}, Unchanged: []string{"s2", "s5"}, Failed: "s3",
		Err: &steps.Error{Code: steps.CodeDigest}})
	if have := h.names(); !slices.Equal(have, []string{digest("d")}) {
		t.Errorf("left %q, want the one that no step has read", have)
	}
	h.files["/d/blobs/"+digest("e")+".part"], h.files["/d/blobs/README"] = 1, 1
	b.clear(ctx)
	if have := h.names(); !slices.Equal(have, []string{"README"}) {
		t.Errorf("left %q", have)
	}
}

// The agent's own program is not sent again.
func TestOwnProgramIsABlob(t *testing.T) {
	h := &blobHost{files: map[string]int64{"/root/agent": 7}, free: 100}
	b := &blobs{host: h, os: "linux", dir: "/d/blobs", own: "/root/agent", ownDigest: digest("f")}
	state, err := b.begin(t.Context(), wire.Blob{Algorithm: "sha256", Digest: digest("f"), Size: 7})
	if err != nil || !state.Have || h.files["/d/blobs/"+digest("f")] != 7 {
		t.Fatalf("%+v, %v, files %v", state, err, h.files)
	}
}

// TestSilence: an agent exits if its controller stays silent.
func TestSilence(t *testing.T) {
	in, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, w := io.Pipe()
	defer r.Close()
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		said <- line
	}()
	err = Serve(t.Context(), in, w, Options{Host: &blobHost{}, Hello: wire.Hello{Digest: "x"},
		Idle: 20 * time.Millisecond})
	if !errors.Is(err, errSilent) {
		t.Errorf("%v, want errSilent", err)
	}
	if line := <-said; !strings.Contains(line, `"hello"`) {
		t.Errorf("it said %q, want hello", line)
	}
}

func TestLockHost(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockHost(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := lockHost(ctx, dir)
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v, want it to wait until it is cancelled", err)
	}
	unlock()
	unlock, err = lockHost(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nodejoin/steps"
)

func testStore(opt Options) *Store {
	s := New(opt)
	s.fetch.pace = pace{tries: 3, first: time.Millisecond, idle: 200 * time.Millisecond, least: 1000}
	return s
}

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31 / 7)
	}
	return b
}

func fetchAll(s *Store, url string) ([]byte, int64, error) {
	r, size, err := s.Open(context.Background(), steps.Source{URL: url})
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return b, size, err
}

// cutWriter aborts a response after some bytes of its body.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func TestFetchResumes(t *testing.T) {
	want := content(400_000)
	for _, ranges := range []bool{true, false} {
		var requests atomic.Int64
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := requests.Add(1)
			if !ranges {
				r.Header.Del("Range")
			}
			if n < 4 {
				w = &cutWriter{w, 100_000 * int(min(n, 2))}
			}
			w.Header().Set("ETag", `"one"`)
			http.ServeContent(w, r, "a.bin", time.Time{}, bytes.NewReader(want))
		}))
		have, size, err := fetchAll(testStore(Options{}), srv.URL+"/a.bin")
		srv.Close()
		if err != nil || !bytes.Equal(have, want) || size != int64(len(want)) {
			t.Errorf("ranges %v: %d bytes of %d, size %d, %v", ranges, len(have), len(want), size, err)
		}
		if requests.Load() < 3 {
			t.Errorf("ranges %v: only %d requests: nothing was cut", ranges, requests.Load())
		}
	}
}

func TestFetchFails(t *testing.T) {
	stop := make(chan struct{})
	var flaky atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/silent", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/changed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1000+int(flaky.Add(1))))
		(&cutWriter{w, 500}).Write(make([]byte, 1000))
	})
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	defer close(stop)
	for path, want := range map[string]string{
		"/none?token=hush": "404 Not Found", "/down": "given up after 3 tries: the server answered 503",
		"/silent": "fewer than 1000 bytes in 200ms", "/changed": "changed on the server",
	} {
		_, _, err := fetchAll(testStore(Options{}), srv.URL+path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: have %v, want %q", path, err, want)
		}
	}
	if _, _, err := fetchAll(testStore(Options{}), "ftp://example.test/x"); err == nil ||
		!strings.Contains(err.Error(), "not an http") {
		t.Errorf("ftp: %v", err)
	}
	closed := httptest.NewServer(mux)
	closed.Close()
	if _, _, err := fetchAll(testStore(Options{}), closed.URL); err == nil ||
		!strings.Contains(err.Error(), "given up after 3 tries") {
		t.Errorf("closed port: %v", err)
	}
}

func TestFetchKeepsCompressedBytes(t *testing.T) {
	want := gzipOf([]byte("hello"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("a transfer encoding is asked for")
		}
		w.Header().Set("Content-Encoding", "gzip") // as misconfigured servers do for .tgz
		w.Write(want)
	}))
	defer srv.Close()
	if have, _, err := fetchAll(testStore(Options{Client: srv.Client()}), srv.URL); err != nil ||
		!bytes.Equal(have, want) {
		t.Errorf("have %q, %v", have, err)
	}
}

func TestFetchObeysItsContext(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer srv.Close()
	s := testStore(Options{})
	s.fetch.pace.first = time.Hour
	why := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, _, err := s.Open(ctx, steps.Source{URL: srv.URL}); !errors.Is(err, why) {
		t.Errorf("have %v", err)
	}
}

func TestOpenBlobs(t *testing.T) {
	dir := t.TempDir()
	body := []byte("staged")
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	ctx := context.Background()
	src := steps.Source{File: "/mirror/a.zip", SHA256: digest}
	s := New(Options{BlobDir: dir})
	_, _, err := s.Open(ctx, src)
	var se *steps.Error
	if !errors.As(err, &se) || se.Code != steps.CodeBlobMissing || se.Digest != digest {
		t.Fatalf("missing blob: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, digest), body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, src := range []steps.Source{src, {URL: "http://127.0.0.1:1/never", SHA256: digest}} {
		r, size, err := s.Open(ctx, src)
		if err != nil {
			t.Fatal(err)
		}
		have, _ := io.ReadAll(r)
		r.Close()
		if !bytes.Equal(have, body) || size != int64(len(body)) {
			t.Errorf("%+v: have %q", src, have)
		}
	}
	if _, _, err := s.Open(ctx, steps.Source{File: "x", SHA256: "../../etc/passwd"}); !errors.As(err, &se) ||
		se.Code != steps.CodeInvalid {
		t.Errorf("a digest that is a path: %v", err)
	}
	direct := New(Options{Direct: true})
	if _, _, err := direct.Open(ctx, steps.Source{File: filepath.Join(dir, "none"), SHA256: digest}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("direct, absent: %v", err)
	}
	if _, _, err := direct.Open(ctx, steps.Source{File: dir}); err == nil {
		t.Error("direct: a folder was opened")
	}
}

// TestFetchIsBounded: a server that sends without end, and one that promises more than any artifact has.
func TestFetchIsBounded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/promised" {
			w.Header().Set("Content-Length", "1000000")
		}
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	s := testStore(Options{})
	s.fetch.limit = 100 << 10
	for _, path := range []string{"/endless", "/promised"} {
		if b, _, err := fetchAll(s, srv.URL+path+"?sig=SECRET"); err == nil || len(b) > 101<<10 ||
			!strings.Contains(err.Error(), "more than 102400 bytes") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
}

// TestFetchRedirects: a redirect does not lead from https to http, nor on and on, and the server that it leads to does
// not get the address that it came from.
func TestFetchRedirects(t *testing.T) {
	var referer atomic.Value
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		referer.Store(r.Referer())
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		w.Write([]byte("bytes"))
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	s := testStore(Options{})
	s.fetch.client.Transport.(*http.Transport).TLSClientConfig =
		secure.Client().Transport.(*http.Transport).TLSClientConfig
	for _, c := range []struct{ from, to, fails string }{
		{plain.URL, plain.URL, ""}, {plain.URL, secure.URL, ""}, {secure.URL, secure.URL, ""},
		{secure.URL, plain.URL, "redirects from https to http"},
		{plain.URL, "ftp://127.0.0.1/x", "unsupported protocol scheme"},
		{plain.URL, "file:///etc/hostname", "unsupported protocol scheme"},
	} {
		have, _, err := fetchAll(s, c.from+"/?sig=SECRET&to="+url.QueryEscape(c.to))
		switch {
		case c.fails == "" && (err != nil || string(have) != "bytes"):
			t.Errorf("%s to %s: %q, %v", c.from, c.to, have, err)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) ||
			strings.Contains(err.Error(), "SECRET")):
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.fails)
		case c.fails == "" && referer.Load() != "":
			t.Errorf("%s to %s: the Referer is %q", c.from, c.to, referer.Load())
		}
	}
	var again *httptest.Server
	again = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, again.URL, http.StatusFound)
	}))
	defer again.Close()
	if _, _, err := fetchAll(s, again.URL); err == nil || !strings.Contains(err.Error(), "again and again") {
		t.Errorf("a circle: %v", err)
	}
}

// TestFetchTrickles: a server that sends a byte now and then does not keep a download alive.
func TestFetchTrickles(t *testing.T) {
	body := content(50_000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		for i := range body {
			if _, err := w.Write(body[i : i+1]); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}))
	defer srv.Close()
	for path, want := range map[string]string{
		"/length": "given up after 3 tries: fewer than 1000 bytes", "/": "bytes in 200ms",
	} {
		b, _, err := fetchAll(testStore(Options{}), srv.URL+path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
}

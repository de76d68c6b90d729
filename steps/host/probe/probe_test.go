package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

func TestHTTP(t *testing.T) {
	srv := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusFound))
	status, err := HTTP(t.Context(), srv.URL+"/healthz")
	if status != http.StatusFound || err != nil {
		t.Errorf("a redirect: %d, %v", status, err)
	}
	srv.Close()
	if status, err := HTTP(t.Context(), srv.URL); err == nil {
		t.Errorf("a server that is down answers %d", status)
	}
	for _, away := range []string{"http://192.0.2.1/", "https://127.0.0.1/", "http://example.test/",
		"file:///etc/passwd"} {
		if _, err := HTTP(t.Context(), away); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", away, err)
		}
	}
}

// grpcServer answers every call on a unix socket: /ok with status 0, others with 12.
func grpcServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) != 5 || r.Header.Get("Content-Type") != "application/grpc" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		if r.URL.Path != "/s/ok" {
			w.Header().Set("Grpc-Status", "12")
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(make([]byte, 5))
		w.Header().Set("Grpc-Status", "0")
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return path
}

func TestPipe(t *testing.T) {
	path := grpcServer(t)
	if err := Pipe(t.Context(), Unix, path, ""); err != nil {
		t.Error(err)
	}
	if err := Pipe(t.Context(), Unix, "unix://"+path, "/s/ok"); err != nil {
		t.Error(err)
	}
	if err, ok := errors.AsType[*GRPCError](Pipe(t.Context(), Unix, path, "/s/other")); !ok || err.Status != "12" {
		t.Errorf("an unknown method: %v", err)
	}
	if err := Pipe(t.Context(), Unix, path+"x", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent socket: %v", err)
	}
}

// A server that takes the connection and says nothing is not an answer.
func TestPipeSilent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Pipe(ctx, Unix, path, "/s/ok"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
}

// TestAPICertificate: what the server shows is told, whoever signed it.
func TestAPICertificate(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	answer, err := API(t.Context(), srv.URL)
	if err != nil || len(answer.Certificates) != 1 || !bytes.Equal(answer.Certificates[0], srv.Certificate().Raw) {
		t.Errorf("%d certificates, %v", len(answer.Certificates), err)
	}
}

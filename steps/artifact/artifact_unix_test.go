//go:build unix

package artifact

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/steps"
)

// TestOpenPipe: a pipe in an artifact's place is refused, and not waited for.
func TestOpenPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := New(Options{Direct: true}).Open(t.Context(), steps.Source{File: pipe})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it is waited for")
	}
}

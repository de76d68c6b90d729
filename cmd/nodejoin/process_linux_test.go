package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestBlockedOutput: signals end a run even if the reader of standard error has stopped reading.
func TestBlockedOutput(t *testing.T) {
	dir := t.TempDir()
	const text = `node "a" {
  os = "windows"
  connection "sandbox" { path = "box" }
}
step "file" "first" {
  on      = node.a
  path    = "C:\\first.txt"
  content = "x"
}
step "http_ready" "web" {
  on      = node.a
  url     = "http://127.0.0.1:1/healthz"
  timeout = "5m"
  after   = ["first"]
}
`
	if err := os.WriteFile(filepath.Join(dir, "x.join.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nodejoin", "apply", "--auto-approve", "--display", "quiet", dir)
	cmd.Stderr = fullPipe(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for begun := false; !begun; {
		_, err := os.Stat(filepath.Join(dir, "box", "C", "first.txt"))
		begun = err == nil
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		case <-time.After(time.Millisecond): // between two checks
		}
	}
	for range 2 {
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("exit code %d: %v", code, err)
			}
			return
		case <-time.After(5 * time.Second):
		}
	}
	select {
	case err := <-ended:
		t.Logf("it ended late: %v", err)
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("two signals do not end it")
	}
}

// fullPipe is the write end of a full pipe.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	fd := int(w.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = syscall.Write(fd, make([]byte, 4096))
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return w
}

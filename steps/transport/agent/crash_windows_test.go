package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const crashArg = "NODEJOIN_TEST_CRASH"

// TestCrashGoesToAFile: a program that crashes ends even if nobody reads its standard error,
// and its file holds the message of the runtime.
func TestCrashGoesToAFile(t *testing.T) {
	if path := os.Getenv(crashArg); path != "" {
		CrashTo(path)
		for range 64 { // more than a pipe holds
			go func() { select {} }()
		}
		time.Sleep(100 * time.Millisecond)
		go func() { panic("the last words") }() // in a goroutine, so that the test does not recover it
		select {}
	}
	dir, err := os.MkdirTemp("", "nodejoin-test")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.crash")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashGoesToAFile$")
	cmd.Env = append(os.Environ(), crashArg+"="+path, "GOTRACEBACK=all")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() // never read
	cmd.Stderr = w
	err = cmd.Run()
	_ = w.Close()
	if ctx.Err() != nil || cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("it ended with %v, %v", err, ctx.Err())
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "panic: the last words") {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
}

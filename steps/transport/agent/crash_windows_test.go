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

// TestCrashGoesToAFile: a program whose standard error nobody reads ends all the same when
// it crashes, and its file has what the runtime said.
func TestCrashGoesToAFile(t *testing.T) {
	if path := os.Getenv(crashArg); path != "" {
		CrashTo(path)
		for range 64 { // more than a pipe holds
			go func() { select {} }()
		}
		time.Sleep(100 * time.Millisecond)
		go func() { panic("the last words") }() // not one that the test recovers
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

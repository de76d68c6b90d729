//go:build unix

package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/plan/eval"
)

func sh(script string) eval.Program {
	return eval.Program{Command: []string{"sh", "-c", script}, Dir: "/", Timeout: time.Minute, Most: 1 << 20}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FROM_OUTSIDE", "outside")
	p := sh(`printf '%s %s %s' "$PWD" "$FROM_OUTSIDE" "$GIVEN"; cat; tty >/dev/null && echo terminal; echo noise >&2`)
	p.Dir, p.Env = dir, []string{"GIVEN=given"}
	out, err := Runner(t.Context())(p)
	if want := dir + " outside given"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}

// TestFailures: each way to fail has its own error.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	slow, much := sh("echo begun >&2; sleep 600"), sh("yes")
	slow.Timeout, much.Most = 300*time.Millisecond, 100_000
	for _, c := range []struct {
		program      eval.Program
		what, stderr string
	}{
		{sh("echo no such zone >&2; exit 3"), "ended with exit status 3", "no such zone"},
		{sh("kill -9 $$"), "ended with signal: killed", ""},
		{slow, "did not end within 300ms and was stopped", "begun"},
		{much, "printed more than 100000 bytes", ""},
		{sh("yes noise | head -c 60000 >&2; echo last >&2; exit 1"), "ended with exit status 1", "noise\nlast"},
		{sh("sleep 600 &"), "left processes behind", ""},
		{eval.Program{Command: []string{"no-such-program-here"}, Timeout: time.Minute}, "is not in PATH", ""},
		{eval.Program{Command: []string{dir + "/none"}, Timeout: time.Minute}, "does not exist", ""},
		{eval.Program{Command: []string{plain}, Timeout: time.Minute}, "is not executable", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			out, err := Runner(t.Context())(c.program)
			var why *eval.ProgramError
			if !errors.As(err, &why) || out != nil || !strings.HasPrefix(why.What, c.what) ||
				!strings.HasSuffix(why.Stderr, c.stderr) || len(why.Stderr) > maxStderr {
				t.Errorf("%q, %+v; want %q, %q", out, err, c.what, c.stderr)
			}
		})
	}
}

// TestStopped: an interrupted program ends at once, and so do its children.
func TestStopped(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := Runner(ctx)(sh("sleep 600 & echo $! >" + note + ".new; mv " + note + ".new " + note + "; wait"))
		done <- err
	}()
	var pid int
	for deadline := time.Now().Add(20 * time.Second); pid == 0; time.Sleep(time.Millisecond) { // between two checks
		text, _ := os.ReadFile(note) // absent until the shell has written it
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if time.Now().After(deadline) {
			t.Fatal("the program did not start")
		}
	}
	stop()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
	for deadline := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); strings.Contains(string(text), ") Z ") {
			break // killed, but its new parent has not reaped it yet
		}
		if time.Now().After(deadline) {
			t.Fatal("its child still runs")
		}
	}
}

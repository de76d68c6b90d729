package acceptance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hungWait is for a program that hangs to print where, before it is killed.
const hungWait = 5 * time.Second

// command is nodejoin with args, from the root of the repository. Where it still runs when ctx ends, it prints its
// goroutines and is killed.
func (p program) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, string(p), args...)
	cmd.Dir, cmd.Env = repository(t), environment(t)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = hungWait
	return cmd
}

// within returns ctx for one run of nodejoin, which ends after applyWait.
func within(ctx context.Context, args []string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, applyWait, fmt.Errorf("nodejoin %s had not ended after %v",
		strings.Join(args, " "), applyWait))
}

// ended returns an error for a command that did not end by itself, with what it has printed, or did not start. err is
// what its Wait returned. An exit code is no error.
func ended(ctx context.Context, err error, printed ...string) error {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it hung: %w\n%s", context.Cause(ctx), strings.Join(printed, "\n"))
	case err != nil && !errors.As(err, &exit):
		return err
	}
	return nil
}

// output runs nodejoin with args and returns what it writes to standard output.
func (p program) output(ctx context.Context, t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	out, _, code = p.outputs(ctx, t, args...)
	return out, code
}

// outputs is output, with standard error.
func (p program) outputs(ctx context.Context, t *testing.T, args ...string) (out, said string, code int) {
	t.Helper()
	out, said, code, err := p.try(ctx, t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out, said, code
}

// try is outputs for a run that may hang, which is an error.
func (p program) try(ctx context.Context, t *testing.T, args ...string) (out, said string, code int, err error) {
	t.Helper()
	ctx, cancel := within(ctx, args)
	defer cancel()
	cmd := p.command(ctx, t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	noSecret(t, args[0], slices.Concat(stdout.Bytes(), stderr.Bytes()))
	out, said = stdout.String(), stderr.String()
	if err := ended(ctx, err, out, said); err != nil {
		return "", "", 0, err
	}
	return out, said, cmd.ProcessState.ExitCode(), nil
}

// must runs nodejoin with args, which must succeed, and returns what it writes to both of its streams.
func (p program) must(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, said, code := p.outputs(ctx, t, args...)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", args, code, out, said)
	}
	return out + said
}

// TestHungCommand: a run of nodejoin that does not end is ended with the context of its test, and reports where it
// hung.
func TestHungCommand(t *testing.T) {
	p := released(t)
	ctx, cancel := bounded(t, 3*time.Minute)
	defer cancel()
	values := filepath.Join(t.TempDir(), "nobody-writes.hcl")
	if err := syscall.Mkfifo(values, 0o600); err != nil {
		t.Fatal(err)
	}
	hangs, end := context.WithCancelCause(ctx)
	go func() {
		w, err := awaitReader(ctx, values)
		end(errors.Join(errors.New("the bound of the test"), err))
		<-t.Context().Done()
		w.Close()
	}()
	_, _, _, err := p.try(hangs, t, "validate", "--var-file", values, "examples/quickstart")
	if err == nil {
		t.Fatal("nodejoin has read what nobody writes")
	}
	for _, want := range []string{"the bound of the test", "goroutine 1 ", "nodejoin/plan/eval."} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not have %q:\n%v", want, err)
		}
	}
}

// awaitReader waits until a program reads a FIFO, and opens it for writing.
func awaitReader(ctx context.Context, path string) (*os.File, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) {
			return w, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("nobody reads %s: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// TestBounded: a test that is over its bound ends before go test ends the process.
func TestBounded(t *testing.T) {
	end, ok := t.Deadline()
	if !ok {
		t.Skip("go test runs with -timeout 0")
	}
	ctx, cancel := bounded(t, 24*time.Hour)
	defer cancel()
	have, ok := ctx.Deadline()
	if left := end.Sub(have); !ok || left <= 0 || left > cleanUpWait+time.Second {
		t.Errorf("the bound of the test is %v before go test's own, want at most %v", left, cleanUpWait)
	}
}

// Package program runs the programs of data blocks on the controller.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"nodejoin/plan/eval"
)

const (
	// grace is how long to wait for output of processes that a program has left behind.
	grace = 2 * time.Second
	// maxStderr bounds what is kept of standard error (bytes), its end.
	maxStderr = 1000
	// depthEnv counts how many programs of plans are around this process; maxDepth bounds them. A program that runs
	// nodejoin on its own plan would have no end.
	depthEnv = "NODEJOIN_PROGRAM_DEPTH"
	maxDepth = 5
)

// Runner runs programs until ctx ends. It is for plan.Options.
func Runner(ctx context.Context) func(eval.Program) ([]byte, error) {
	return func(p eval.Program) ([]byte, error) { return run(ctx, p) }
}

// errTooMuch is the cause of an end because of too much output.
var errTooMuch = errors.New("too much output")

func run(ctx context.Context, p eval.Program) ([]byte, error) {
	depth, _ := strconv.Atoi(os.Getenv(depthEnv)) // 0 if it is not set
	if depth >= maxDepth {
		return nil, &eval.ProgramError{What: fmt.Sprintf("is not run, as %d others wait for it", depth),
			Remedy: "Does it run nodejoin on this plan?"}
	}
	path, err := exec.LookPath(p.Command[0])
	if err != nil {
		return nil, missing(p.Command[0], err)
	}
	timed, stop := context.WithTimeout(ctx, p.Timeout)
	defer stop()
	limited, end := context.WithCancelCause(timed)
	defer end(nil)
	out := &bounded{most: p.Most, full: func() { end(errTooMuch) }}
	problems := &tail{}
	cmd := exec.CommandContext(limited, path, p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(append(os.Environ(), p.Env...), fmt.Sprintf("%s=%d", depthEnv, depth+1))
	cmd.Stdout, cmd.Stderr = out, problems
	cmd.WaitDelay = grace
	apart(cmd)
	err = cmd.Run()
	what := &eval.ProgramError{Stderr: problems.text()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		what.What = "was stopped, because nodejoin was interrupted"
	case errors.Is(context.Cause(limited), errTooMuch):
		what.What = fmt.Sprintf("printed more than %d bytes, which is the most, and was stopped", p.Most)
	case timed.Err() != nil:
		what.What = fmt.Sprintf("did not end within %s and was stopped", p.Timeout)
		what.Remedy = "Give it more time with the argument \"timeout\", which is at most 5m."
	case errors.As(err, &exit):
		what.What = "ended with " + exit.String()
	case errors.Is(err, exec.ErrWaitDelay):
		what.What = "left processes behind that keep its output open"
		what.Remedy = "They must close it, or end with the program."
	case err != nil:
		what.What = "could not be started: " + err.Error()
	default:
		return out.kept.Bytes(), nil
	}
	return nil, what
}

// missing is the error for a program that cannot be found.
func missing(name string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return &eval.ProgramError{What: "is not in PATH", Remedy: "Install it on the machine that runs nodejoin, or give " +
			"its path."}
	case errors.Is(err, os.ErrNotExist):
		return &eval.ProgramError{What: "does not exist (" + name + ")"}
	case errors.Is(err, os.ErrPermission):
		return &eval.ProgramError{What: "is not executable (" + name + ")"}
	}
	return &eval.ProgramError{What: "cannot be run: " + err.Error()}
}

// bounded keeps at most most bytes and reports once that there are more.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no bound
	most int
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > b.most {
		b.full()
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}

// tail keeps the end of what is written.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "")) }

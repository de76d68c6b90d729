package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Once runs a program in its own folder to its end, with its output to out and no input, and returns its
// exit code. env nil is this process's. If ctx ends first, it kills the program and its children and
// returns the cause; they also end with this process.
func Once(ctx context.Context, command, env []string, out *os.File) (code int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	p, err := startProcess(command, env, filepath.Dir(command[0]), out, apart())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Release()) }()
	select {
	case <-p.ended:
		return p.exitCode()
	case <-ctx.Done():
	}
	killed := p.Kill()
	bound := time.NewTimer(killGrace)
	defer bound.Stop()
	select {
	case <-p.ended:
		return 0, errors.Join(context.Cause(ctx), killed)
	case <-bound.C:
		return 0, errors.Join(context.Cause(ctx), killed, fmt.Errorf("%s is still there %s after it was killed", p,
			killGrace))
	}
}

// exitCode is that of a program that has ended; one that a signal ended has none.
func (p *process) exitCode() (int, error) {
	if code := p.cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 0, fmt.Errorf("it was ended: %s", p.Result())
}

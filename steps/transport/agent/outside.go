package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// ErrInside says that the shell lets no program out. Nothing was started and nothing read.
var ErrInside = errors.New("the shell's job lets no program out")

// outputWait bounds the wait for output after the end of the program, where another one still has its end.
const outputWait = 5 * time.Second

// Outside runs this program with args outside the shell that this process is in, with its input and output, and
// returns the exit code. A shell of WinRM is a job, and its end kills what is in it: this process, not the other one,
// whose input ends with it, as that of a program over SSH does. No other process has the pipes between the two.
func Outside(args ...string) (code int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(program, args...)
	// Files would be passed on themselves, and WinRM waits until nobody has those of the shell.
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = struct{ io.Writer }{os.Stdout}, struct{ io.Writer }{os.Stderr}, outputWait
	cmd.SysProcAttr = outside()
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInside, err)
	}
	go func() { // ends with this process
		_, _ = io.Copy(in, os.Stdin)
		_ = in.Close()
	}()
	err = cmd.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return max(1, ended.ExitCode()), nil
	}
	return 0, err
}

//go:build !windows

package supervise

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"os/signal"
	"syscall"
)

// serve runs the program until SIGTERM or SIGINT.
func serve(c config, w io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return run(ctx, c, w, func() {})
}

// process is a running program in a process group of its own.
type process struct {
	cmd  *exec.Cmd
	done chan error // one value, when it has ended
}

func start(command []string, w io.Writer) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = stopTimeout // what children of it still hold the output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p, nil
}

func (p *process) pid() int   { return p.cmd.Process.Pid }
func (p *process) ask() error { return syscall.Kill(-p.pid(), syscall.SIGTERM) }
func (p *process) release()   { _ = p.kill() }

// kill ends what is left of the group; an empty group is no error.
func (p *process) kill() error {
	if err := syscall.Kill(-p.pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

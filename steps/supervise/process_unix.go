//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// tree is a process group.
type tree struct{}

// apart is a tree for a program that shares nothing with this process.
func apart() tree { return tree{} }

// unlocked locks the goroutine to its thread and returns a function that unlocks it.
func unlocked() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func (t *tree) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	return cmd.Start()
}

func (t *tree) interrupt(p *os.Process) error { return t.signal(p, syscall.SIGTERM) }
func (t *tree) kill(p *os.Process) error      { return t.signal(p, syscall.SIGKILL) }
func (t *tree) release() error                { return nil }

// signal sends to the whole group; a group that has ended is not an error.
func (t *tree) signal(p *os.Process, s syscall.Signal) error {
	err := syscall.Kill(-p.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

//go:build unix

package program

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// apart starts the program in a session of its own: it has no terminal to ask on, and ends with all that it started.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}

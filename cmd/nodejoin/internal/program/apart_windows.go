package program

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// apart starts the program without nodejoin's console, so that it cannot ask there.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
}

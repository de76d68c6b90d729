package agent

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// outside has a process leave the job of this one, as WinRM's job allows (JOB_OBJECT_LIMIT_BREAKAWAY_OK; where one
// does not, CreateProcess fails), and gives it a console of its own: the end of the shell's console ends who is on it.
func outside() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_BREAKAWAY_FROM_JOB | windows.CREATE_NO_WINDOW}
}

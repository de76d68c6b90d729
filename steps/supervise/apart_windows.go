package supervise

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// ownSession: no signal to the console of this process reaches the program.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

//go:build unix

package supervise

import "syscall"

// ownSession: no signal to the group or the terminal of this process reaches the program.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

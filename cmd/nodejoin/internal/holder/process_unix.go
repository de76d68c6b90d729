//go:build unix && !linux

package holder

import (
	"errors"
	"syscall"
)

// Runs reports whether there is a process with this number, of any user.
func Runs(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

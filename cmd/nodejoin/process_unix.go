//go:build unix && !linux

package main

import (
	"errors"
	"syscall"
)

// processRuns reports whether there is a process with this number, of any user.
func processRuns(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

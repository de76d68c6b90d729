//go:build unix && !linux

package main

import (
	"errors"
	"syscall"
)

// processRuns tells whether a process of this number is there, whosever it is.
func processRuns(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

//go:build unix

package atonce

import (
	"syscall"
	"time"
)

// cpuTime is what this process has had of all processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// openFiles is how many files this process may open; Go has raised the limit as far as it may. 0 = not known.
func openFiles() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // FreeBSD has an int64
}

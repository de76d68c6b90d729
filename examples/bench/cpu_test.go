//go:build unix

package bench_test

import (
	"syscall"
	"testing"
	"time"
)

// cpu is what this process has had of all processors. Unlike the time, it means something on a busy machine.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

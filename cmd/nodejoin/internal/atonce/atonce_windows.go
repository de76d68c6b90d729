package atonce

import (
	"time"

	"golang.org/x/sys/windows"
)

// cpuTime is what this process has had of all processors.
func cpuTime() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user); err != nil {
		return 0
	}
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration((ticks(kernel) + ticks(user)) * 100)
}

// openFiles: Windows has no limit that a run could meet.
func openFiles() uint64 { return 0 }

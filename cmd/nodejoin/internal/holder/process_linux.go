package holder

import "nodejoin/steps/host/linux"

// Runs reports whether a process with this number is running. One that was killed
// and not yet reaped is not; in a container it may stay like that forever.
func Runs(pid int) bool { return linux.Runs(pid) }
